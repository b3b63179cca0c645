package node

import (
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// listedUses lists tokens by name with when they were last used; "": not that anybody knows.
func listedUses(t *testing.T, dir string) map[string]string {
	t.Helper()
	uses := make(map[string]string)
	for _, token := range bySocket(t, dir, "TokenService/List", struct{}{})["tokens"].([]any) {
		token := token.(map[string]any)
		at, _ := token["lastUsed"].(string)
		uses[token["name"].(string)] = at
	}
	return uses
}

// When a token was last used outlives a restart of the node that saw it, and does not pass to another token of its
// name.
func TestLastUsesOutliveARestart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		n := start(t, config)
		createToken(t, config.DataDir, "root", "admin")
		web := createToken(t, config.DataDir, "web", "check")
		await.Until(t, "the token is used", func() bool { return spendAs(n, web) != 401 })
		before := listedUses(t, config.DataDir)
		if before["web"] == "" || before["root"] != "" {
			t.Fatalf("before: %v", before)
		}
		for range 2 { // the second process has not seen it, and passes on what it has read
			stop(t, n)
			n = start(t, config)
			if after := listedUses(t, config.DataDir); after["web"] != before["web"] || after["root"] != "" {
				t.Errorf("after a restart: %v, before: %v", after, before)
			}
		}
		bySocket(t, config.DataDir, "TokenService/Revoke", map[string]any{"name": "web"})
		createToken(t, config.DataDir, "web", "check")
		if after := listedUses(t, config.DataDir); after["web"] != "" {
			t.Errorf("another token of the name was used at %s", after["web"])
		}
		stop(t, n)
	})
}

// A node tells others what it has read, so it does not matter which one is asked, and which ones have restarted.
func TestLastUsesOfANodeThatHasRestartedAreToldToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		web := createToken(t, c.configs[0].DataDir, "web", "check")
		var seen time.Time // of a use after the token was made, by the clocks of two nodes
		await.Until(t, "one node sees the token", func() bool {
			spent := spendAs(c.nodes[1], web)
			seen = c.nodes[1].tokens.lastUsed()["web"]
			return spent == 200 && !seen.IsZero()
		})
		for i := range c.nodes {
			c.stop(i)
		}
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		for i := range c.nodes {
			var uses map[string]string
			await.Until(t, "each node says when it was", func() bool {
				uses = listedUses(t, c.configs[i].DataDir)
				return uses["web"] != "" && c.nodes[i].tokens.lastUsed()["web"].Equal(seen)
			}, &uses)
		}
	})
}
