package shard

import (
	"testing"

	"github.com/stint-io/stint/policy"
)

// A node that does not yet know of a policy's parent would bypass the parent's pool.
func TestWhatWasMadeByOlderPoliciesDoesNotSkipAParent(t *testing.T) {
	child, parent := onePolicy(windowLimit), onePolicy(windowLimit)
	parent.Name = "vendor"
	w := newWorld(t, child, parent)
	s := opened(w, origin)
	counted := inSession(checkOf("p", "acme/x", 1), s, 1, 0)
	counted.Revision = 1
	w.decided(counted)

	family := *child
	family.Parent = "vendor"
	w.policies = policy.NewSet([]*policy.Policy{&family, parent}).At(2)
	ask := func(what string, revision uint64, want Code, change func(r *Request)) {
		for _, op := range []Op{Check, Peek, Get, Count, Partial, Reserve} {
			r := checkOf("p", "acme/x", 1)
			if op == Reserve {
				r.Hold = &HoldTerms{TTL: minute}
			}
			if r.Op, r.Revision = op, revision; change != nil {
				change(&r)
			}
			before := w.state.Records()
			results, puts := w.batch(w.state.Time()+1, r)
			switch err := results[0].Err; {
			case want == 0 && err != nil:
				t.Errorf("%s, op %d: %v", what, op, err)
			case want != 0 && (err == nil || err.Code != want || err.MaybeApplied() || len(puts) > 0 ||
				w.state.Records() != before):
				t.Errorf("%s, op %d: %+v, and wrote %v", what, op, results[0], puts)
			}
		}
	}
	named := func(r *Request) { r.Entries = append(r.Entries, Entry{Policy: "vendor", Key: "acme", Cost: 1}) }
	ask("made by older policies", 1, Outdated, nil)
	ask("made by older policies that had the parent", 1, 0, named)
	ask("of a key that has nothing above it", 1, 0, func(r *Request) { r.Entries[0].Key = "acme" })
	ask("made by these policies", 2, 0, nil)
	ask("made by newer policies", 3, 0, nil)
	ask("of a node that says nothing", 0, 0, nil)

	counted.Retry = true
	if d := w.decided(counted); !d.Allowed || !d.Replayed {
		t.Errorf("a copy of what was counted by the older policies: %+v", d)
	}
}
