package decisions

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

type discardDenials struct{}

func (discardDenials) Denied(string, string, string) {}

// A check of one key costs its event nothing, allowed or denied, while listeners want only its counts.
func TestACheckIsCountedWithoutAllocations(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		a := Asked{Requests: []shard.Request{{Op: shard.Check, Entries: []shard.Entry{{Policy: "p", Key: "k"}}}},
			Results: []shard.Result{{
				Decision: shard.Decision{Allowed: allowed,
					Limits: []shard.LimitStatus{{Policy: "p", Limit: "l", Key: "k",
						Verdict: limit.Verdict{Allowed: allowed}}}}}}}
		e := new(Event)
		listeners := Listeners{NewBus("n", nil)}
		n := testing.AllocsPerRun(100, func() {
			*e = Event{}
			e.Ask(a)
			e.CountDenials(discardDenials{})
			listeners.Ended(e)
		})
		if n > 0 || len(e.Counted) != 1 || e.Counted[0].N != 1 || e.Denied() == allowed {
			t.Errorf("allowed %v: %v allocations, %+v", allowed, n, e.Counted)
		}
	}
}
