package routing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// family is a request of one key under a policy that has a parent from time to time.
type family struct {
	own, parent shard.Entry
	request     shard.Request
}

func familyOf(op shard.Op, id string, child, parent shard.ID) *family {
	f := &family{own: shard.Entry{Policy: "own", Key: keyOn(child, "child of "+id), Cost: 2},
		parent:  shard.Entry{Policy: "own", Key: keyOn(parent, "parent of "+id), Cost: 2},
		request: shard.Request{Op: op, Namespace: "n", ID: id}}
	if op == shard.Reserve {
		f.request.Hold = &shard.HoldTerms{TTL: limit.Span(15 * time.Second / time.Microsecond),
			OnExpire: policy.OnExpireCommit}
	}
	return f
}

// asked returns the request as a node makes it that knows of the parent, or does not.
func (f *family) asked(withParent bool) shard.Request {
	r := f.request
	if r.Entries = []shard.Entry{f.own}; withParent {
		r.Entries, r.Own = append(r.Entries, f.parent), 1
	}
	return r
}

func (w *archipelago) usedOf(e shard.Entry) uint64 {
	s := w.shards[shard.Of(islets, "n", e.Key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.used(e.Policy, e.Key)
	return n
}

// A request is what its client has sent: a copy is recognized, whether its policy has got or lost a parent since, and
// wherever that one's key lives.
func TestARetryIsTheSameRequestWhateverParentsThereAre(t *testing.T) {
	for _, op := range []shard.Op{shard.Check, shard.Count, shard.Partial, shard.Reserve} {
		for parent := range shard.ID(3) {
			for _, got := range []bool{false, true} {
				calmSeas(t, func(w *archipelago, node *mortal) {
					what := fmt.Sprintf("op %d, child on shard 1, parent on shard %d, got %v", op, parent, got)
					f := familyOf(op, what, 1, parent)
					decide := func(r shard.Request) shard.Result {
						return node.Decide(w.Context(), cloneRequests([]shard.Request{r}))[0]
					}
					first := decide(f.asked(!got))
					again := decide(f.asked(got))
					if first.Err != nil || again.Err != nil {
						t.Fatalf("%s: %v, then %v", what, first.Err, again.Err)
					}
					if d, a := first.Decision, again.Decision; !a.Allowed || !a.Replayed ||
						a.DecidedAt != d.DecidedAt || a.HoldExpires != d.HoldExpires || len(a.Limits) != len(d.Limits) {
						t.Errorf("%s: answered %+v, and its copy %+v", what, d, a)
					}
					for e, want := range map[*shard.Entry]uint64{&f.own: 2, &f.parent: map[bool]uint64{false: 2}[got]} {
						if used := w.usedOf(*e); used != want {
							t.Errorf("%s: %q has used %d, want %d", what, e.Key, used, want)
						}
					}
					other := f.asked(got)
					other.Entries[0].Cost = 1
					if result := decide(other); result.Err == nil || result.Err.Code != shard.IDReused {
						t.Errorf("%s: another request under the id: %+v", what, result)
					}
					// The copy's answer can be settled, and gives a parent nothing that it has not taken.
					entries := f.asked(got)
					d := again.Decision
					back := shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&entries, &d),
						Settlement: &shard.Settlement{
							Action: shard.ActionCancel, Target: shard.Target{Hold: d.HoldExpires != 0,
								DecidedAt: d.DecidedAt, Position: d.Position, Index: d.Index}}}
					if d.Operation != nil {
						t := &back.Settlement.Target
						t.Operation, t.Home, t.Position, t.Index = d.Operation.ID, d.Operation.Home, shard.Position{}, 0
					}
					before := decide(shard.Request{Op: shard.Count, Namespace: "n", Entries: []shard.Entry{f.parent}})
					if result := decide(back); before.Err != nil || result.Err != nil {
						t.Errorf("%s: what the copy was told is not settled: %v", what, result.Err)
					}
					time.Sleep(10 * time.Second)
					if used := w.usedOf(f.own); used != 0 {
						t.Errorf("%s: given back, %q has used %d", what, f.own.Key, used)
					}
					if used := w.usedOf(f.parent); used < 2 {
						t.Errorf("%s: %q has got back what it never gave: %d", what, f.parent.Key, used)
					}
				})
			}
		}
	}
}

// An id that one request has used is refused to any other with its home or leg there, on one shard or on several.
func TestAnIDOfOneKeyIsNotThatOfSeveral(t *testing.T) {
	for name, requests := range map[string][2]shard.Request{
		"one, then several":       {acrossAll(shard.Check, "k", 0), acrossAll(shard.Check, "k", 0, 1)},
		"several, then one":       {acrossAll(shard.Check, "k", 0, 1), acrossAll(shard.Check, "k", 0)},
		"several, then one leg":   {acrossAll(shard.Check, "k", 0, 1), acrossAll(shard.Check, "k", 1)},
		"one, then as a leg":      {acrossAll(shard.Check, "k", 1), acrossAll(shard.Check, "k", 0, 1)},
		"a leg, then as a home":   {acrossAll(shard.Check, "k", 0, 1), acrossAll(shard.Check, "k", 1, 2)},
		"a home, then as a leg":   {acrossAll(shard.Check, "k", 1, 2), acrossAll(shard.Check, "k", 0, 1)},
		"several, then of others": {acrossAll(shard.Check, "k", 0, 1), acrossAll(shard.Check, "k", 0, 2)},
	} {
		calmSeas(t, func(w *archipelago, node *mortal) {
			for i, r := range requests {
				r.ID = "used"
				result := node.Decide(w.Context(), []shard.Request{r})[0]
				if i == 0 && (result.Err != nil || !result.Decision.Allowed) {
					t.Errorf("%s: the first: %+v", name, result)
				}
				if i == 1 && (result.Err == nil || result.Err.Code != shard.IDReused) {
					t.Errorf("%s: %+v", name, result)
				}
			}
			time.Sleep(20 * time.Second)
			for id := range shard.ID(3) {
				want := uint64(0)
				for _, e := range requests[0].Entries {
					if e.Key == keyOn(id, "k") {
						want = 1
					}
				}
				if used := w.usedOf(shard.Entry{Policy: "own", Key: keyOn(id, "k")}); used != want {
					t.Errorf("%s: shard %d has counted %d, want %d", name, id, used, want)
				}
			}
		})
	}
}

// Copies of one request by nodes that know of a parent and by those that do not are counted once, whatever fails in
// between.
func TestCopiesAreOneRequestWhileAParentComesAndGoes(t *testing.T) {
	var all tally
	first, worlds := firstSeed(t), worldsToPlay()
	for seed := first; seed < first+uint64(worlds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newArchipelago(t, seed)
			var group sync.WaitGroup
			families := make([]*family, 30)
			heard := make([]tally, len(families))
			var mu sync.Mutex
			for i := range families {
				op := []shard.Op{shard.Check, shard.Count, shard.Partial, shard.Reserve}[w.draw(4)]
				f := familyOf(op, fmt.Sprint("family ", i), shard.ID(w.draw(3)), shard.ID(w.draw(3)))
				families[i] = f
				begin := time.Duration(w.draw(20_000)) * time.Millisecond
				for range 2 + w.draw(3) {
					later := begin + time.Duration(w.draw([]int{1, 200, 20_000}[w.draw(3)]))*time.Millisecond
					group.Go(func() {
						time.Sleep(later)
						node := w.mortalNode()
						defer node.Close()
						ctx, cancel := context.WithTimeout(context.Background(),
							time.Duration(100+w.draw(8000))*time.Millisecond)
						defer cancel()
						r := f.asked(w.draw(2) == 0)
						// no copy comes when its id is forgotten
						r.NotAfter = now() + limit.Time(time.Minute/time.Microsecond)
						result := node.Decide(ctx, []shard.Request{r})[0]
						mu.Lock()
						defer mu.Unlock()
						switch {
						case node.dead() || result.Err != nil && result.Err.MaybeApplied():
							heard[i].unknown++
						case result.Err != nil:
							heard[i].definite++
							if result.Err.Code == shard.IDReused || result.Err.Code == shard.Invalid {
								t.Errorf("seed %d: family %d: %v", seed, i, result.Err)
							}
						case result.Decision.Allowed:
							heard[i].allowed++
						default:
							t.Errorf("seed %d: family %d is denied: %+v", seed, i, result.Decision)
						}
					})
				}
			}
			group.Wait()
			w.settleDown()
			for i, f := range families {
				h, used, above := &heard[i], w.usedOf(f.own), w.usedOf(f.parent)
				if used != 0 && used != 2 || above != 0 && above != 2 || above > used {
					t.Errorf("seed %d: family %d has used %d, its parent %d, of a cost of 2: %+v\n%s",
						seed, i, used, above, *h, strings.Join(w.history[f.request.ID], "\n"))
				}
				if h.allowed > 0 && used != 2 {
					t.Errorf("seed %d: family %d was admitted, and %d are used: %+v", seed, i, used, *h)
				}
				all.allowed, all.unknown, all.definite = all.allowed+h.allowed, all.unknown+h.unknown,
					all.definite+h.definite
			}
			w.close()
		})
	}
	if worlds >= enoughWorlds && (all.allowed < worlds || all.unknown < worlds/4) {
		t.Errorf("the worlds are too calm or too rough: %+v", all)
	}
}

// A denial of another shard is no denial in shadow, although a limit in shadow would have denied too.
func TestADenialOfOneShardIsNoneInShadow(t *testing.T) {
	o := &operation{whole: &shard.Request{}}
	shadow := shard.Decision{Allowed: true, ShadowDenied: true,
		Operation: &shard.Verdict{State: shard.OperationCommitted}}
	for _, denied := range []bool{false, true} {
		home := shadow
		home.Allowed = !denied
		legs := []shard.Leg{{Slot: 1, Allowed: !denied, Decision: shard.Decision{Allowed: !denied, ShadowDenied: true}}}
		if d := o.merged(home, legs); d.ShadowDenied == denied {
			t.Errorf("looked at, denied %v: %+v", denied, d)
		}
		if d := o.answer(&home, legs).Decision; d.ShadowDenied == denied {
			t.Errorf("decided, denied %v: %+v", denied, d)
		}
	}
}
