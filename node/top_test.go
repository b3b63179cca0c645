package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Denials that nodes repeat by themselves are counted, wherever they were repeated and whichever node is asked: once
// each, as decisions and as denials. A shard that gets another owner meanwhile forgets what its owner has counted: then
// other keys are asked about.
func TestTopHasTheDenialsThatNodesRepeat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		var wrong []string
		for try := range 5 {
			keys := map[string][3]top.Estimate{} // what is to be told of each
			repeated := 0
			for i := range 4 { // of several shards
				key, n := fmt.Sprint("key ", try, i), [3]top.Estimate{}
				for ask := range 24 * (i + 1) {
					r := c.ask(ask%3, shard.Check, "flooded", key)
					switch {
					case r.Err != nil:
						t.Fatal(r.Err)
					case r.Decision.Allowed:
						n[top.Units].Count++
					default:
						n[top.Denials].Count++
					}
					n[top.Decisions].Count++
					if r.Decision.Age > 0 {
						repeated++
					}
				}
				keys[key] = n
			}
			if repeated < 50 {
				t.Fatalf("only %d denials were repeated: the test is about them", repeated)
			}
			if wrong = c.topDiffers(keys); len(wrong) == 0 {
				return
			}
		}
		t.Errorf("%q", wrong)
	})
}

// topDiffers says what the nodes tell otherwise of keys of policy flooded.
func (c *trio) topDiffers(keys map[string][3]top.Estimate) (wrong []string) {
	for i := range c.nodes {
		for _, order := range []top.Measure{top.Denials, top.Decisions, top.Units} {
			q := top.Query{Namespace: shard.DefaultNamespace, Policies: []string{"flooded"}, Order: order,
				Span: top.Hour, Count: top.CountMax}
			answer, missing, err := c.nodes[i].topReader.Top(c.t.Context(), &q)
			if err != nil || len(missing) > 0 || len(answer.Policies) != 1 {
				wrong = append(wrong, fmt.Sprintf("node %d: %v, without %v: %v", i+1, answer, missing, err))
				continue
			}
			listed := 0
			for _, k := range answer.Policies[0].Keys {
				want, ours := keys[k.Key]
				if ours {
					listed++
				}
				if ours && k.Estimates != want {
					wrong = append(wrong, fmt.Sprintf("node %d, order %d: %s has %v, want %v",
						i+1, order, k.Key, k.Estimates, want))
				}
			}
			if listed != len(keys) {
				wrong = append(wrong, fmt.Sprintf("node %d, order %d: %d of %d keys", i+1, order, listed, len(keys)))
			}
		}
	}
	return wrong
}

// A repeated denial is counted without a new allocation, and within the memory that all lists of a node may take.
func TestARepeatedDenialIsCountedInPlace(t *testing.T) {
	budget := top.NewBudget(1 << 20)
	p := newRepeatedDenials(time.Now, budget)
	r := shard.Request{Op: shard.Check, Namespace: "default", Entries: []shard.Entry{{Policy: "p", Key: "k", Cost: 1}}}
	d := shard.Decision{Age: 1,
		Limits: []shard.LimitStatus{{Policy: "p", Limit: "a", Key: "k", Verdict: limit.Verdict{}}}}
	p.count(&r, &d)
	if n := testing.AllocsPerRun(1000, func() { p.count(&r, &d) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 100_000 {
		r.Entries[0].Policy, r.Entries[0].Key = "p"+string(rune('a'+i%90)), string(rune('a'+i%5000))
		d.Limits[0].Policy, d.Limits[0].Key = r.Entries[0].Policy, r.Entries[0].Key
		if p.count(&r, &d); budget.Used() > 1<<20 {
			t.Fatalf("%d bytes are used", budget.Used())
		}
	}
	if budget.Used() < 1<<19 {
		t.Errorf("only %d bytes are used: the bound was not met", budget.Used())
	}
}

// BenchmarkRepeatCounted measures what a repeated denial costs to be counted.
func BenchmarkRepeatCounted(b *testing.B) {
	p := newRepeatedDenials(time.Now, top.NewBudget(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := shard.Request{Op: shard.Check, Namespace: "default",
			Entries: []shard.Entry{{Policy: "p", Key: "k", Cost: 1}}}
		d := shard.Decision{Age: 1, Limits: []shard.LimitStatus{{Policy: "p", Limit: "a", Key: "k"}}}
		for pb.Next() {
			p.count(&r, &d)
		}
	})
}

// A page that asks any node has what all of them answered.
func TestTrafficIsOfAllNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		admitted, denied := uint64(0), uint64(0)
		for i, n := range c.nodes {
			for range i + 1 {
				callAPI(t, n, "LimitService/Check", `{"entries":[{"policy":"stock","key":"k","cost":"1"}]}`)
				admitted++
			}
			callAPI(t, n, "LimitService/Check", `{"entries":[{"policy":"stock","key":"k","cost":"1000000"}]}`)
			denied++
		}
		time.Sleep(2 * top.TrafficSeconds * time.Second)
		q := top.Query{Namespace: shard.DefaultNamespace, Count: 1, Traffic: true}
		for i := range c.nodes {
			answer, missing, err := c.nodes[i].topReader.Top(t.Context(), &q)
			if err != nil || len(missing) > 0 {
				t.Fatal(missing, err)
			}
			var sum top.Traffic
			for _, one := range answer.Traffic {
				sum.Admitted += one.Admitted
				sum.Denied += one.Denied
			}
			if sum.Admitted != admitted || sum.Denied != denied {
				t.Errorf("node %d: %d admitted and %d denied, want %d and %d",
					i+1, sum.Admitted, sum.Denied, admitted, denied)
			}
		}
	})
}

// Every node tells the same of all shards. A node that does not answer is named, and its shards are told by the nodes
// that take them over.
func TestTopIsAboutAllNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
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
		if report := c.nodes[0].reporter.answer("n2", c.nodes[1].reporter.question()); report.Top != nil ||
			len(report.Replicas) == 0 {
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
	})
}
