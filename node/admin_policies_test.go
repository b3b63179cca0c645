package node

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The newest twenty versions are kept beside the one in force, whichever nodes have applied them, and survive a
// restart. Later ones take their places: the system shard has no more documents then.
func TestTheNewestTwentyVersionsOfThePoliciesAreKept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		const last = 24
		// with the sessions of the three nodes; of the owner: its replica is not behind
		documents := func() (most int) {
			for _, n := range c.nodes {
				n.replicas.of(shard.System).group.View(func(s *shard.State) { most = max(most, s.Records()) })
			}
			return most
		}
		var full int
		for version := 2; version <= last; version++ {
			got, _, err := c.nodes[version%3].admin.Apply(t.Context(), quotaPolicy(t, uint64(version)), nil,
				false, "jo", "")
			if err != nil || got != uint64(version) {
				t.Fatalf("version %d: %d, %v", version, got, err)
			}
			if version == keptSets+1 {
				full = documents()
			}
		}
		if got := documents(); got != full {
			t.Errorf("%d documents, were %d when as many versions were there as are kept", got, full)
		}
		c.stop(0, 1, 2)
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		kept, err := c.nodes[0].admin.KeptPolicies(t.Context())
		if err != nil || len(kept) != keptSets+1 {
			t.Fatalf("%d versions, %v", len(kept), err)
		}
		for i, k := range kept {
			if want := uint64(last - keptSets + i); k.Version != want ||
				!bytes.Equal(k.Body, policy.Format(quotaPolicy(t, want))) {
				t.Errorf("version %d: %q, want version %d", k.Version, k.Body, want)
			}
		}
	})
}

// What a release has kept, every later one reads.
func TestGoldenOfKeptPolicies(t *testing.T) {
	golden, err := hex.DecodeString("ac022ac8cfc94cce4c2db6e2525048b452a8cec9cccd2c29b652888eade502040000ffff")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := decodeKept(shard.Document{Version: 9, Body: golden})
	if err != nil || kept.Version != 300 || string(kept.Body) != "policies:\n  a: {limits: []}\n" {
		t.Errorf("version %d: %q, %v", kept.Version, kept.Body, err)
	}
	for n := range golden {
		if _, err := decodeKept(shard.Document{Body: golden[:n]}); err == nil {
			t.Errorf("the first %d bytes are taken for all", n)
		}
	}
}

func TestKeptPoliciesOfEverySize(t *testing.T) {
	for _, size := range []int{0, 1, 1000, shard.MaxDocumentBytes} {
		body := bytes.Repeat([]byte("limits "), size/7+1)[:size]
		kept, err := decodeKept(shard.Document{Body: encodeKept(shard.Document{Version: 7, Body: body})})
		if err != nil || kept.Version != 7 || !bytes.Equal(kept.Body, body) {
			t.Errorf("%d bytes: version %d, %d bytes, %v", size, kept.Version, len(kept.Body), err)
		}
	}
	if _, err := decodeKept(shard.Document{
		Body: encodeKept(shard.Document{Version: 7, Body: make([]byte, shard.MaxDocumentBytes+1)})}); err == nil {
		t.Error("a text is read that was never a document")
	}
}
