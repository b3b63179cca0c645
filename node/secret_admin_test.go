package node

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// sealedBy makes an id on a node.
func sealedBy(n *Node) string {
	return n.view.sealer().Seal(shard.Target{Position: shard.Position{Epoch: 1, Seq: 2}, DecidedAt: 3, Index: 1},
		shard.DefaultNamespace, []shard.Entry{{Policy: "stock", Key: "k", Cost: 1}})
}

// opensEverywhere checks that every node reads an id, or refuses it with an error.
func (c *trio) opensEverywhere(what, id string, want error) {
	c.t.Helper()
	for i, n := range c.nodes {
		if n == nil {
			continue
		}
		if _, err := n.view.sealer().Open(id); !errors.Is(err, want) {
			c.t.Errorf("%s, on node %d: %v, want %v", what, i+1, err, want)
		}
	}
}

// awaitSecrets waits until the secrets are as they should be, by what every running node knows.
func (c *trio) awaitSecrets(what string, is func(*knownSecrets) bool) {
	c.t.Helper()
	await.Until(c.t, what, func() bool {
		for _, n := range c.nodes {
			if n != nil && !is(n.view.newestSecrets()) {
				return false
			}
		}
		return true
	})
}

func sealsWith(number uint32) func(*knownSecrets) bool {
	return func(s *knownSecrets) bool { return s.SealsWith() == number && s.Settled() }
}

// A new secret seals when every listed node has it, and not before; the former one opens until it is dropped. A node
// that was away meanwhile gives out no id that others refuse. The actor is in the audit log; the secrets are nowhere.
func TestSealingSecretsAreRotatedAndDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		first := sealedBy(c.nodes[0])
		c.stop(2)
		number, err := c.nodes[1].secretAdmin.Rotate(t.Context(), "jo")
		if err != nil || number != 2 {
			t.Fatalf("number %d, %v", number, err)
		}
		await.Until(t, "the node that is away is all that is missing", func() bool {
			_, unconfirmed, err := c.nodes[0].secretAdmin.Secrets(t.Context())
			return err == nil && slices.Equal(unconfirmed, []string{"n3"})
		})
		for range 3 { // plans
			c.nodes[0].changed.notify()
			c.nodes[1].changed.notify()
			c.opensEverywhere("while a node is away", sealedBy(c.nodes[0]), nil)
		}
		secrets, _, err := c.nodes[1].secretAdmin.Secrets(t.Context())
		if err != nil || len(secrets.Sealing) != 2 || secrets.SealsWith() != 1 || secrets.Waiting() != 2 ||
			secrets.Sealing[1].Made == 0 {
			t.Fatalf("%+v, %v", secrets, err)
		}
		for _, refused := range []func() error{
			func() error { _, err := c.nodes[0].secretAdmin.Rotate(t.Context(), "jo"); return err },
			func() error { _, err := c.nodes[0].secretAdmin.DropOld(t.Context(), "jo"); return err },
		} {
			if err := refused(); err == nil || !strings.Contains(err.Error(), "it waits for n3") {
				t.Errorf("while a node is away: %v", err)
			}
		}
		c.start(2)
		c.ready(0, 1, 2)
		c.awaitSecrets("all nodes know it", sealsWith(2))
		second := sealedBy(c.nodes[2])
		c.opensEverywhere("the new secret's", second, nil)
		c.opensEverywhere("the former one's", first, nil)

		c.stop(2)
		dropped, err := c.nodes[0].secretAdmin.DropOld(t.Context(), "jo for ann")
		if err != nil || !slices.Equal(dropped, []uint32{1}) {
			t.Fatalf("dropped %v, %v", dropped, err)
		}
		c.awaitSecrets("the old one is gone", func(s *knownSecrets) bool { return len(s.Sealing) == 1 })
		c.opensEverywhere("a dropped secret's", first, shard.ErrHandleDropped)
		c.start(2)
		c.opensEverywhere("right after a restart", sealedBy(c.nodes[2]), nil)
		c.opensEverywhere("the new secret's", second, nil)
		c.ready(2)
		c.awaitSecrets("the node that was away knows", func(s *knownSecrets) bool { return len(s.Sealing) == 1 })

		history, err := c.nodes[2].admin.History(t.Context())
		if err != nil || len(history) != 2 || history[0].Deed != "secret rotate" || history[0].Actor != "jo" ||
			history[1].Deed != "secret drop-old" || history[1].Actor != "jo for ann" {
			t.Errorf("%+v, %v", history, err)
		}
	})
}

// An id that names a secret which a node has not heard of is read by the cluster's newest.
func TestANodeAsksForASecretThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		before := c.nodes[2].view.secrets.now()
		if _, err := c.nodes[0].secretAdmin.Rotate(t.Context(), "jo"); err != nil {
			t.Fatal(err)
		}
		c.awaitSecrets("all nodes know it", sealsWith(2))
		id := sealedBy(c.nodes[0])
		c.nodes[2].view.secrets.newest.Store(&before) // it may learn at any moment
		if _, err := before.value.sealer.Open(id); !errors.Is(err, shard.ErrHandleNewer) {
			t.Errorf("by what it knew: %v", err)
		}
		sealer, err := c.nodes[2].secretAdmin.newestSealer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sealer.Open(id); err != nil {
			t.Errorf("by the newest: %v", err)
		}
	})
}

// A restored cluster settles what the backup knows, by ids that the lost cluster gave out, and seals with a secret that
// is not in the backup.
func TestARestoreDrawsASecret(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		n := start(t, config)
		var held, lost struct {
			Decision struct{ HoldID string }
		}
		post(t, n, "Reserve", `{"check":{"entries":[{"policy":"stock","key":"k","cost":"60"}]},"ttl":"3600s"}`, &held)
		file := backedUp(t, n)
		post(t, n, "Reserve", `{"check":{"entries":[{"policy":"stock","key":"other","cost":"60"}]},"ttl":"3600s"}`,
			&lost)
		before := sealedBy(n)
		stop(t, n)
		config.DataDir = filepath.Join(t.TempDir(), "restored")
		if err := planned(t, file, restore.Config{DataDir: config.DataDir}).Write(); err != nil {
			t.Fatal(err)
		}
		n = start(t, config)
		defer stop(t, n)
		secrets, _, err := n.secretAdmin.Secrets(t.Context())
		if err != nil || len(secrets.Sealing) != 2 || secrets.Sealing[0].Ends == 0 || secrets.SealsWith() != 2 {
			t.Errorf("%+v, %v", secrets, err)
		}
		// format 1, number 2
		if after := sealedBy(n); after == before || !strings.HasPrefix(after, "AQ") ||
			!strings.Contains("IJKL", after[2:3]) {
			t.Errorf("it seals %s, and the lost cluster %s", after, before)
		}
		post(t, n, "Settle", `{"holdId":"`+held.Decision.HoldID+`","cancel":{}}`, &struct{}{})
		if code, answer := tryPost(t, n, "Settle", `{"holdId":"`+lost.Decision.HoldID+`","cancel":{}}`); code == 200 ||
			!strings.Contains(answer, "failed_precondition") || !strings.Contains(answer, "restored from a backup") {
			t.Errorf("a hold of the lost time: %d %s", code, answer)
		}
	})
}
