package node

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Every node understands the ids that another one gave, and the secret that seals them is not shown anywhere.
func TestAllNodesHaveOneSecret(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		id := c.nodes[0].view.sealer().Seal(shard.Target{Position: shard.Position{Epoch: 1, Seq: 2}, DecidedAt: 3},
			shard.DefaultNamespace, []shard.Entry{{Policy: "stock", Key: "k", Cost: 1}})
		for i, n := range c.nodes {
			if _, err := n.view.sealer().Open(id); err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		}
		status, err := c.nodes[1].admin.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shown, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := placement.DecodeSecrets(c.nodes[0].view.secrets.now().text)
		if err != nil {
			t.Fatal(err)
		}
		secret := base64.StdEncoding.EncodeToString(secrets.Sealing[0].Key)
		if strings.Contains(string(shown), secret) || strings.Contains(c.journal.String(), secret) {
			t.Error("the secret is in the status or in the log")
		}
		c.stop(2)
		c.start(2)
		c.ready(2)
		if _, err := c.nodes[2].view.sealer().Open(id); err != nil {
			t.Errorf("after a restart: %v", err)
		}
		late := c.mustJoin("late")
		if _, err := c.nodes[late].view.sealer().Open(id); err != nil {
			t.Errorf("a node that joins later: %v", err)
		}
		c.stop(1)
		c.start(1)
		if _, err := c.nodes[1].view.sealer().Open(id); err != nil {
			t.Errorf("right after a restart: %v", err)
		}
		c.ready(1)
	})
}

// A node that serves the API gives out ids of holds, and accepts them.
func TestAHoldIsSettledByItsID(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		var held struct {
			Decision struct{ HoldID string }
		}
		post(t, n, "Reserve", `{"check":{"entries":[{"policy":"stock","key":"k","cost":"60"}]}}`, &held)
		if held.Decision.HoldID == "" {
			t.Fatal("the hold has no id")
		}
		post(t, n, "Settle", `{"holdId":"`+held.Decision.HoldID+`","cancel":{}}`, &struct{}{})
		var again struct {
			Decision struct{ Allowed bool }
		}
		post(t, n, "Check", `{"entries":[{"policy":"stock","key":"k","cost":"60"}]}`, &again)
		if !again.Decision.Allowed {
			t.Error("the cancelled hold is still counted")
		}
		stop(t, n)
	})
}

// post calls the limit service.
func post(t *testing.T, n *Node, method, body string, answer any) {
	t.Helper()
	code, text := tryPost(t, n, method, body)
	if code != http.StatusOK {
		t.Fatalf("%s: %d: %s", method, code, text)
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		t.Fatalf("%s: %v in %s", method, err, text)
	}
}

// tryPost is post for a call that may be refused.
func tryPost(t *testing.T, n *Node, method, body string) (code int, answer string) {
	t.Helper()
	response, err := clientOf(n).Post("http://"+n.APIAddr()+"/stint.v1.LimitService/"+method, "application/json",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return response.StatusCode, string(text)
}
