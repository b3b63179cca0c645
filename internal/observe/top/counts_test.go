package top

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
)

// cluster is nodes that own a shard each and repeat denials, with the exact counts of everything.
type cluster struct {
	owners, repeats []*Board
	exact           map[string]*[measures]uint64 // by policy/key
	totals          map[string]*[measures]uint64 // by policy
}

func newCluster(nodes int, bytes, now int64) *cluster {
	c := &cluster{exact: map[string]*[measures]uint64{}, totals: map[string]*[measures]uint64{}}
	for range nodes {
		budget := NewBudget(bytes)
		c.owners, c.repeats = append(c.owners, NewBoard(budget, now)), append(c.repeats, NewBoard(budget, now))
	}
	return c
}

func (c *cluster) count(b *Board, policy, key string, denied bool, units uint64) {
	b.Add("ns", policy, key, denied, units)
	for all, name := range map[*map[string]*[measures]uint64]string{&c.exact: policy + "/" + key, &c.totals: policy} {
		n := (*all)[name]
		if n == nil {
			n = new([measures]uint64)
			(*all)[name] = n
		}
		n[Decisions]++
		n[Units] += units
		if denied {
			n[Denials]++
		}
	}
}

// owner is the board of the shard on which a key lives.
func (c *cluster) owner(key string) *Board {
	h := fnv.New32a()
	h.Write([]byte(key))
	return c.owners[int(h.Sum32())%len(c.owners)]
}

// answer asks all nodes, as they ask each other.
func (c *cluster) answer(t *testing.T, q *Query, now int64) Answer {
	t.Helper()
	var nodes []Counts
	for i := range c.owners {
		own := Collect(q, c.owners[i].Read(q, now), c.repeats[i].Read(q, now))
		own.Bound()
		text, err := json.Marshal(own)
		var heard Counts
		if err == nil {
			err = json.Unmarshal(text, &heard)
		}
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, heard)
	}
	return Join(q, nodes)
}

// Whatever owners have counted and nodes have repeated, the true count of each listed key is in its bracket: also where
// a key is listed by some of them only, has lost its place in lists, or shares a table with other policies.
func TestRepeatedDenialsAreInTheBracket(t *testing.T) {
	const nodes = 3
	for round := range uint64(30) {
		r := rand.New(rand.NewPCG(6, round))
		bytes, policies, steps, keys := int64(0), 2, int64(40), 10<<r.IntN(6) // up to 320, more than a list has
		// most policies share a table with a full list; no window ends, and no table grows until there is no room
		if round%3 == 0 {
			bytes, policies, steps, keys = 12*tableSize, 30, 1, 10
		}
		now := 1_000_000 * hour
		c := newCluster(nodes, bytes, now)
		for range steps {
			now += r.Int64N(second) * (steps - 1) / 20
			for _, b := range append(c.owners, c.repeats...) {
				b.Advance(now)
			}
			for range 6000 / steps {
				policy, key := fmt.Sprint("p", r.IntN(policies)), fmt.Sprint("k",
					int(float64(keys)*r.Float64()*r.Float64()))
				denied := r.IntN(3) > 0
				c.count(c.owner(key), policy, key, denied, bitOf(!denied))
				if denied {
					for range r.IntN(4) {
						c.count(c.repeats[r.IntN(nodes)], policy, key, r.IntN(5) > 0, 0)
					}
				}
			}
		}
		for order := range Measure(measures) {
			q := Query{Namespace: "ns", Order: order, Span: Hour, Count: 1 + r.IntN(CountMax)}
			answer := c.answer(t, &q, now)
			if len(answer.Policies) == 0 || answer.Cut {
				t.Fatalf("round %d: %d policies, cut %v", round, len(answer.Policies), answer.Cut)
			}
			for _, p := range answer.Policies {
				if len(p.Keys) > q.Count {
					t.Errorf("round %d: %d keys of %s, asked for %d", round, len(p.Keys), p.Name, q.Count)
				}
				if bytes == 0 && p.Totals != *c.totals[p.Name] {
					t.Errorf("round %d: %s has %v, the truth is %v", round, p.Name, p.Totals, *c.totals[p.Name])
				}
				seen := map[string]bool{}
				for i, k := range p.Keys {
					exact := c.exact[p.Name+"/"+k.Key]
					if exact == nil || seen[k.Key] {
						t.Fatalf("round %d: %s/%s is listed twice, or was never asked about", round, p.Name, k.Key)
					}
					seen[k.Key] = true
					for m, e := range k.Estimates {
						if e.Least() > exact[m] || exact[m] > e.Count {
							t.Errorf("round %d, order %d: measure %d of %s/%s is %d..%d, the truth is %d",
								round, order, m, p.Name, k.Key, e.Least(), e.Count, exact[m])
						}
					}
					if i > 0 && k.Estimates[order].Least() > p.Keys[i-1].Estimates[order].Least() {
						t.Errorf("round %d: %s stands behind a smaller one", round, k.Key)
					}
				}
			}
		}
	}
}

func bitOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A key that is denied by one node again and again stands first, with what its owner and all nodes know of it, also if
// its owner has a list full of others.
func TestAKeyOnlyNodesKnowIsListed(t *testing.T) {
	c := newCluster(2, 0, 0)
	for range 3 {
		for i := range 200 {
			c.count(c.owners[0], "p", fmt.Sprint("k", i), true, 0)
		}
	}
	for range 500 {
		c.count(c.repeats[0], "p", "flood", true, 0)
		c.count(c.repeats[1], "p", "flood", true, 0)
	}
	q := Query{Namespace: "ns", Order: Denials, Count: 3}
	p := c.answer(t, &q, 0).Policies[0]
	if k := p.Keys[0]; k.Key != "flood" || k.Estimates[Denials].Least() != 1000 || k.Estimates[Denials].Err == 0 {
		t.Errorf("first is %+v", k)
	}
	if p.Totals != [measures]uint64{1600, 1600, 0} {
		t.Errorf("in all %v", p.Totals)
	}
	q.Policies = []string{"other"}
	if answer := c.answer(t, &q, 0); len(answer.Policies) != 0 {
		t.Errorf("a policy that was not asked for: %v", answer.Policies)
	}
}

// A key that its owner left out of its answer, because others stood before it, may have been asked about there as often
// as they.
func TestAKeyThatItsOwnerLeftOutIsInTheBracket(t *testing.T) {
	c := newCluster(2, 0, 0)
	for range 3 {
		for i := range 20 {
			c.count(c.owners[0], "p", fmt.Sprint("k", i), true, 0)
		}
	}
	for range 2 {
		c.count(c.owners[0], "p", "flood", true, 0)
		c.count(c.repeats[1], "p", "flood", true, 0)
		c.count(c.repeats[1], "p", "flood", true, 0)
	}
	q := Query{Namespace: "ns", Order: Denials, Count: 3}
	k := c.answer(t, &q, 0).Policies[0].Keys[0]
	if e := k.Estimates[Denials]; k.Key != "flood" || e.Least() > 6 || e.Count < 6 {
		t.Errorf("first is %+v, the truth is 6 of flood", k)
	}
}

// An answer with more repeated denials than fit into a message says that it is cut.
func TestRepeatedDenialsFitIntoAMessage(t *testing.T) {
	long := strings.Repeat("x", 200)
	var c Counts
	for p := range 200 {
		one := List{Policy: fmt.Sprint("p", p)}
		for m := range one.Of {
			for i := range summaryKeys {
				one.Of[m].Rows = append(one.Of[m].Rows, Row{Key: fmt.Sprint(i, long), Count: 1})
			}
		}
		c.Repeated = append(c.Repeated, one)
	}
	if c.Bound(); !c.Cut || len(c.Repeated) == 0 || len(c.Repeated) >= 200 {
		t.Errorf("%d of 200, cut %v", len(c.Repeated), c.Cut)
	}
	text, err := json.Marshal(c)
	if err != nil || len(text) > 2<<20 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
