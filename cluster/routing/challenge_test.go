package routing

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// An operation on several shards is challenged only if every shard that denies does so softly, whichever of them is
// asked first, and also when it is looked at before anything is charged.
func TestSeveralShardsChallengeOnlyIfNoneDenies(t *testing.T) {
	for name, c := range map[string]struct {
		costs [3]uint64 // on the soft limit of shard 0 (home), the hard one of shard 1 and the soft one of shard 2
		want  bool
	}{
		"home softly":              {[3]uint64{2, 1, 1}, true},
		"a leg softly":             {[3]uint64{1, 1, 2}, true},
		"home and a leg softly":    {[3]uint64{2, 1, 2}, true},
		"home softly, a leg hard":  {[3]uint64{2, 2, 1}, false},
		"a leg softly, a leg hard": {[3]uint64{1, 2, 2}, false},
		"a leg hard":               {[3]uint64{1, 2, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			calmSeas(t, func(w *archipelago, node *mortal) {
				once := func(name string, exceeded policy.OnExceeded) *policy.Policy {
					return &policy.Policy{Name: name, Retention: policy.DefaultRetention,
						Limits: []policy.Limit{{Name: "all",
							OnExceeded: exceeded, Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}}
				}
				w.policies = policy.NewSet([]*policy.Policy{once("own", policy.ExceededChallenge),
					once("shared", policy.ExceededDeny)})
				// the second one looks first
				for n, op := range []shard.Op{shard.Check, shard.Check, shard.Peek, shard.Reserve} {
					for _, id := range []string{"", fmt.Sprint("id ", n)} {
						r := acrossAll(op, "k", 0, 1, 2)
						if op == shard.Reserve {
							r.Hold = &shard.HoldTerms{TTL: 1e6}
						}
						r.ID, r.Entries[1].Policy = id, "shared"
						for i := range r.Entries {
							r.Entries[i].Cost = c.costs[i]
						}
						if op == shard.Peek {
							r.ID = ""
						}
						result := node.Decide(w.Context(), []shard.Request{r})[0]
						if d := &result.Decision; result.Err != nil || d.Allowed || d.Challenged() != c.want {
							t.Errorf("op %d, id %q: challenged is %v: %+v", op, id, d.Challenged(), result)
						}
					}
				}
				for _, id := range []shard.ID{0, 1, 2} {
					for _, of := range []string{"own", "shared"} {
						if used, _ := w.shards[id].used(of, keyOn(id, "k")); used != 0 {
							t.Errorf("%d of %s are used on shard %d", used, of, id)
						}
					}
				}
			})
		})
	}
}
