package node

import (
	"testing"

	"github.com/stint-io/stint/internal/await"
	"github.com/stint-io/stint/internal/top"
	"github.com/stint-io/stint/shard"
)

// Every node tells the same of all shards. A node that does not answer is named, and its shards are told by who takes them over.
func TestTopIsAboutAllNodes(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	keys := keysOfAllShards(uint32(c.nodes[0].view.shards()))
	spend := func(i int) {
		for range i%3 + 1 {
			if r := c.spend(i%3, keys[i]); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	for i := range keys {
		spend(i)
	}
	q := top.Query{Namespace: shard.DefaultNamespace, Span: top.Hour, Count: top.CountMax}
	told := func(i int) (all map[string]uint64, missing []string) {
		answer, missing, err := c.nodes[i].topReader.Top(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		all = map[string]uint64{}
		for _, p := range answer.Policies {
			for _, k := range p.Keys {
				all[p.Name+"/"+k.Key] = k.Estimates[top.Decisions].Count
			}
		}
		return all, missing
	}
	want := min(len(keys), top.CountMax)
	var all map[string]uint64
	var missing []string
	for i := range c.nodes {
		await.Until(t, c.configs[i].NodeID+" tells of all keys", func() bool {
			if all, missing = told(i); len(missing) > 0 {
				return false
			}
			counted := len(all) == want
			for j, key := range keys {
				if n, listed := all["stock/"+key]; n < uint64(j%3+1) && (listed || len(all) < want) {
					spend(j) // its shard has a new owner, which knows nothing of before
					counted = false
				}
			}
			return counted
		}, &all, &missing)
	}
	first, ok := c.nodes[0].topReader.HideKey("a", "k")
	second, _ := c.nodes[1].topReader.HideKey("a", "k")
	other, _ := c.nodes[1].topReader.HideKey("b", "k")
	if !ok || first != second || first == other || len(first) != 16 {
		t.Errorf("one key is shown as %q and %q, and in another namespace as %q", first, second, other)
	}
	c.stop(2)
	await.Until(t, "the stopped node is named", func() bool {
		_, missing := told(0)
		return len(missing) == 1 && missing[0] == "n3"
	})
	if report := c.nodes[0].reporter.answer("n2", c.nodes[1].reporter.question()); report.Top != nil || len(report.Replicas) == 0 {
		t.Errorf("a node that asks for no keys is told %v", report.Top)
	}
	question := c.nodes[1].reporter.question()
	question.Top = &top.Query{Namespace: shard.DefaultNamespace, Order: 200, Count: 5}
	if report := c.nodes[0].reporter.answer("n2", question); report.Top != nil {
		t.Errorf("a question of a newer release is answered with %v", report.Top)
	}
	question.Top = &q
	if report := c.nodes[0].reporter.answer("stranger", question); report.Top != nil {
		t.Errorf("a node that is not listed is told %v", report.Top)
	}
}
