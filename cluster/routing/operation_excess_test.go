package routing

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// overspent is a hold of one unit of a key on each of three shards, and a commit of it that is refused if it does not
// fit.
type overspent struct {
	*archipelago
	node *mortal
	held shard.Request
	said shard.Decision
}

func (w *archipelago) overspend(node *mortal, policies ...string) *overspent {
	r := acrossAll(shard.Reserve, "over", 2, 0, 1)
	for i, policy := range policies {
		r.Entries[i].Policy = policy
	}
	r.Hold = &shard.HoldTerms{TTL: limit.Span(time.Hour / time.Microsecond)}
	o := &overspent{archipelago: w, node: node, held: r}
	o.said = o.ask(r).Decision
	if !o.said.Allowed {
		w.Fatalf("reserved: %+v", o.said)
	}
	return o
}

func (o *overspent) ask(r shard.Request) shard.Result {
	return o.node.Decide(o.Context(), []shard.Request{r})[0]
}

func (o *overspent) commit(overage shard.Overage, actual ...uint64) shard.Result {
	return o.ask(shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&o.held, &o.said),
		Settlement: &shard.Settlement{
			Action: shard.ActionCommit, Overage: overage, Actual: actual,
			Target: shard.Target{Hold: true, DecidedAt: o.said.DecidedAt,
				Operation: o.said.Operation.ID, Home: o.said.Operation.Home}}})
}

// numbers returns the used and held units of the three entries, as recorded by the shards.
func (o *overspent) numbers() string {
	r := o.held
	r.Op, r.Hold = shard.Get, nil
	text := ""
	for _, s := range o.ask(r).Decision.Limits {
		text += fmt.Sprintf("%d/%d ", s.Used, s.Held)
	}
	return text
}

func TestWhatWasSpentAboveIsTakenOnAllShards(t *testing.T) {
	for name, actual := range map[string][]uint64{"everywhere": {3, 4, 5}, "at home": {1, 4, 0}, "at a leg": {3, 1, 0},
		"nowhere": {0, 1, 1}} {
		calmSeas(t, func(w *archipelago, node *mortal) {
			o := w.overspend(node, "shared", "shared")
			settled := o.commit(shard.OverageReject, actual...)
			want := ""
			for _, units := range actual {
				want += fmt.Sprintf("%d/0 ", units)
			}
			told := ""
			for _, s := range settled.Decision.Limits {
				told += fmt.Sprintf("%d/%d ", s.Used, s.Held)
			}
			if settled.Err != nil || told != want || o.numbers() != want {
				t.Errorf("%s: settled %+v\ntold %s, counted %s, want %s", name, settled, told, o.numbers(), want)
			}
			again := o.commit(shard.OverageReject, actual...)
			if again.Err != nil || !again.Decision.Replayed ||
				!reflect.DeepEqual(again.Decision.Limits, settled.Decision.Limits) {
				t.Errorf("%s: settled again: %+v, was %+v", name, again, settled)
			}
			if other := o.commit(shard.OverageReject, 1, 1, 1); other.Err == nil || other.Err.Code != shard.HoldEnded {
				t.Errorf("%s: settled otherwise: %+v", name, other)
			}
			time.Sleep(time.Minute)
			if counted := o.numbers(); counted != want {
				t.Errorf("%s: a minute later %s is counted, want %s", name, counted, want)
			}
			for _, s := range w.shards {
				s.mu.Lock()
				if s.state.OpenLegs() > 0 || len(s.state.Duties(limit.Forever, 10)) > 0 {
					t.Errorf("%s: shard %v has legs or duties left", name, s.id)
				}
				s.mu.Unlock()
			}
		})
	}
}

func TestWhatIsSpentAboveAndDoesNotFitChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		actual []uint64
		field  string
		charge bool // the legs are charged before the verdict is known
	}{
		"home has no room":            {[]uint64{3, 11, 3}, "commit.actual_cost[1]", false},
		"a leg has none":              {[]uint64{11, 3, 3}, "commit.actual_cost[0]", true},
		"another leg has none":        {[]uint64{3, 1, 11}, "commit.actual_cost[2]", true},
		"a leg has, and is given 0":   {[]uint64{0, 1, 11}, "commit.actual_cost[2]", true},
		"neither home nor a leg have": {[]uint64{11, 11, 11}, "commit.actual_cost[1]", false},
	} {
		calmSeas(t, func(w *archipelago, node *mortal) {
			o := w.overspend(node, "shared", "shared", "shared")
			for range 2 {
				refused := o.commit(shard.OverageReject, c.actual...)
				if refused.Err == nil || refused.Err.Code != shard.OverQuota || refused.Err.Field != c.field ||
					refused.Err.Message != "11 is 10 more than was taken, and there is room for 9 more" {
					t.Errorf("%s: %+v", name, refused)
				}
				if counted := o.numbers(); counted != "1/1 1/1 1/1 " {
					t.Errorf("%s: rejected, and %s is counted", name, counted)
				}
			}
			w.shards[1].mu.Lock()
			// the first charge was the reservation
			if charged := w.shards[1].asked[shard.Charge] > 1; charged != c.charge {
				t.Errorf("%s: the legs were charged: %v", name, charged)
			}
			w.shards[1].mu.Unlock()
			if settled := o.commit(shard.OverageReject, 10, 10, 10); settled.Err != nil ||
				o.numbers() != "10/0 10/0 10/0 " {
				t.Errorf("%s: settled by what fits: %+v, counted %s", name, settled, o.numbers())
			}
		})
	}
}

// A decision is settled like a hold, even when home no longer has a reason to remember its operation.
func TestADecisionIsCommittedAboveWhatItTook(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		r := acrossAll(shard.Check, "over", 2, 0, 1)
		for i := range r.Entries {
			r.Entries[i].Policy = "shared"
		}
		o := &overspent{archipelago: w, node: node, held: r}
		o.said = o.ask(r).Decision
		commit := func(actual ...uint64) shard.Result {
			return o.ask(shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&r, &o.said),
				Settlement: &shard.Settlement{
					Action: shard.ActionCommit, Overage: shard.OverageReject, Actual: actual,
					Target: shard.Target{DecidedAt: o.said.DecidedAt,
						Operation: o.said.Operation.ID, Home: o.said.Operation.Home}}})
		}
		time.Sleep(5 * time.Minute)
		if refused := commit(0, 4, 11); refused.Err == nil || refused.Err.Code != shard.OverQuota {
			t.Errorf("rejected: %+v", refused)
		}
		if settled := commit(0, 4, 10); settled.Err != nil || o.numbers() != "0/0 4/0 10/0 " {
			t.Errorf("settled: %+v, counted %s", settled, o.numbers())
		}
		if again := commit(0, 4, 10); again.Err != nil || !again.Decision.Replayed || o.numbers() != "0/0 4/0 10/0 " {
			t.Errorf("again: %+v, counted %s", again, o.numbers())
		}
	})
}

// A concurrency limit has counted the hold, and does not bound the excess spending.
func TestConcurrencyBoundsNoExcess(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		o := w.overspend(node, "seats", "seats", "seats")
		if settled := o.commit(shard.OverageReject, 7, 7, 7); settled.Err != nil || o.numbers() != "0/0 0/0 0/0 " {
			t.Errorf("settled: %+v, counted %s", settled, o.numbers())
		}
	})
}

// Whichever message is the last one that a coordinator sends, the hold is settled entirely or stays open, and the
// excess that was charged is counted with the settlement or given back. A retry of the same settlement has the same
// result.
func TestACoordinatorMayVanishWhileItChargesTheExcess(t *testing.T) {
	for life := 1; life < 14; life++ {
		calmSeas(t, func(w *archipelago, node *mortal) {
			o := w.overspend(node, "shared", "shared", "shared")
			time.Sleep(time.Second)
			dying := *o
			dying.node = w.node(life)
			dying.commit(shard.OverageReject, 6, 6, 6)
			dying.node.Close()
			time.Sleep(20 * time.Second)
			if counted := o.numbers(); counted != "1/1 1/1 1/1 " && counted != "6/0 6/0 6/0 " {
				t.Errorf("after %d messages %s is counted", life, counted)
			}
			if settled := o.commit(shard.OverageReject, 6, 6, 6); settled.Err != nil || o.numbers() != "6/0 6/0 6/0 " {
				t.Errorf("after %d messages: settled: %+v, counted %s", life, settled, o.numbers())
			}
		})
	}
}
