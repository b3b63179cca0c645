package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// traveler asks one request after the other, each of which must be answered within its deadline.
type traveler struct {
	*archipelago
	node *mortal
	keys []string
	used uint64 // due on each key
}

func (c *traveler) decide(r shard.Request) *shard.Decision {
	for i := range r.Entries {
		r.Entries[i].Policy = "own"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	result := c.node.Decide(ctx, cloneRequests([]shard.Request{r}))[0]
	if result.Err != nil || !result.Decision.Allowed {
		c.Errorf("op %d of %q: %+v, %v", r.Op, c.keys, result.Decision, result.Err)
		return nil
	}
	return &result.Decision
}

// round counts something, and perhaps gives it back.
func (c *traveler) round(number int) {
	r := shard.Request{Op: []shard.Op{shard.Check, shard.Count, shard.Partial, shard.Reserve, shard.Reserve}[c.draw(5)],
		Namespace: "n"}
	if c.draw(3) == 0 {
		r.ID = fmt.Sprint(c.keys, number)
	}
	if r.Op == shard.Reserve {
		r.Hold = &shard.HoldTerms{TTL: 3_000_000}
	}
	for _, key := range c.keys {
		r.Entries = append(r.Entries, shard.Entry{Policy: "own", Key: key, Cost: 1})
	}
	d := c.decide(r)
	if d == nil {
		return
	}
	c.used++
	if r.ID != "" {
		if again := c.decide(r); again != nil && again.DecidedAt != d.DecidedAt {
			c.Errorf("%q asked again: decided at %d, then at %d", r.ID, d.DecidedAt, again.DecidedAt)
		}
	}
	time.Sleep(time.Duration(c.draw(300)) * time.Millisecond)
	peek := shard.Request{Op: shard.Get, Namespace: "n", Entries: r.Entries}
	if now := c.decide(peek); now != nil && now.Limits[0].Used+now.Limits[0].Held < c.used {
		c.Errorf("%q have used %d, want %d", c.keys, now.Limits[0].Used, c.used)
	}
	target := shard.Target{Hold: d.HoldExpires != 0, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}
	if d.Operation != nil {
		target.Operation, target.Home = d.Operation.ID, d.Operation.Home
	}
	s := &shard.Settlement{Action: shard.ActionCancel, Target: target}
	if c.draw(2) == 0 {
		s.Action = shard.ActionCommit
	}
	if s.Action == shard.ActionCancel || target.Hold {
		settle := shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&r, d), Settlement: s}
		if c.decide(settle) != nil && s.Action == shard.ActionCancel {
			c.used--
		}
	}
}

// While slots move and nothing else fails, every request is answered within its deadline, whatever table its node has.
// (G11.)
func TestAMoveFailsNothing(t *testing.T) {
	first, worlds := firstSeed(t), max(worldsToPlay()/4, 1)
	moves, givenUp := 0, 0
	for seed := first; seed < first+uint64(worlds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newArchipelago(t, seed)
			w.calm = true
			var travelers []*traveler
			for i := range 12 {
				c := &traveler{archipelago: w, node: w.node(1 << 30)}
				for j := range 1 + i%3 {
					c.keys = append(c.keys, keyOn(shard.ID(i/4*j%3), fmt.Sprint("traveler", i, ".", j)))
				}
				w.keys = append(w.keys, c.keys...)
				travelers = append(travelers, c)
			}
			m := &mover{archipelago: w}
			for i := range moversOfAWorld {
				w.drivers.Go(func() { m.run(w.ashore, i, moversOfAWorld) })
			}
			var group sync.WaitGroup
			for _, c := range travelers {
				group.Go(func() {
					for number := range 15 {
						c.round(number)
					}
					c.node.Close()
				})
			}
			group.Wait()
			w.settleDown()
			w.close()
			for _, c := range travelers {
				for _, key := range c.keys {
					if used := w.usedAt("own", key); used != c.used {
						t.Errorf("seed %d: %q has used %d, want %d", seed, key, used, c.used)
					}
				}
			}
			moves, givenUp = moves+m.moves, givenUp+m.givenUp
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d moves, %d given up", moves, givenUp)
	if worlds >= enoughWorlds/4 && (moves < worlds*5 || givenUp < worlds/2) {
		t.Errorf("%d moves and %d given up in %d worlds are too few", moves, givenUp, worlds)
	}
}

// portal is a shard that answers as a test says, and else allows. It knows of no operation.
type portal struct {
	asked   []shard.Request
	answer  func(r *shard.Request) *shard.Error
	settled bool // it remembers the settlement of any id
}

func (p *portal) Submit(_ context.Context, requests []shard.Request) []shard.Result {
	p.asked = append(p.asked, requests...)
	results := make([]shard.Result, len(requests))
	for i := range requests {
		results[i].Decision.Allowed = true
		if requests[i].Op == shard.OpenSession {
			results[i].Decision.System = &shard.SystemAnswer{Session: shard.Session{Epoch: 1, Seq: 1}}
		}
		if requests[i].Op == shard.AskHome {
			results[i].Decision.Operation = &shard.Verdict{}
			if p.settled {
				results[i].Decision.Operation, results[i].Decision.Replayed = nil, true
			}
		}
		if p.answer != nil {
			results[i].Err = p.answer(&requests[i])
		}
	}
	return results
}

// newPortals returns a router with the table that *slots has, and three shards.
func newPortals(slots **slot.Map, shards uint32, sessions bool) (*Router, [3]*portal) {
	portals := [3]*portal{{}, {}, {}}
	return New(Config{
		Node:     "n1",
		Slots:    func() (*slot.Map, uint32) { return *slots, shards },
		Places:   func(shard.ID) []string { return nil },
		Local:    func(id shard.ID) (Owner, bool) { return portals[id], true },
		Leader:   func(shard.ID) string { return "" },
		Hints:    gossip.NewHints(3),
		Sessions: func(shard.ID) bool { return sessions },
	}), portals
}

func movedTo(to shard.ID) func(r *shard.Request) *shard.Error {
	return func(r *shard.Request) *shard.Error {
		return &shard.Error{Code: shard.Moved, To: to, Slot: slot.Of(r.Namespace, r.Entries[0].Key), Message: "moved"}
	}
}

// What was learned of a slot is remembered until the table says something new of it, even if the table does not have
// that shard yet.
func TestALearnedSlotIsRememberedUntilTheTableSaysMore(t *testing.T) {
	table := slot.Even(1)
	router, portals := newPortals(&table, 1, false)
	portals[0].answer = movedTo(2)
	ask := func(when string, want [3]int) {
		t.Helper()
		for _, p := range portals {
			p.asked = nil
		}
		wantAllowed(t, when, router.Decide(t.Context(), []shard.Request{check("k")}))
		for id, n := range want {
			if got := len(portals[id].asked); got != n {
				t.Errorf("%s: shard %d was asked %d times, want %d", when, id, got, n)
			}
		}
	}
	at := slot.Of("default", "k")
	ask("first", [3]int{1, 0, 1})
	ask("then", [3]int{0, 0, 1})
	other := *table
	other[(at+1)%slot.Count] = 1
	table = &other
	ask("with a table that says something else of another slot", [3]int{0, 0, 1})
	newer := other
	newer[at] = 1
	table = &newer
	ask("with a table that says something else of it", [3]int{0, 1, 0})
}

// A peer that names a shard which no cluster has makes no routes, and the request waits for another answer.
func TestAShardThatCannotBeIsNotLearned(t *testing.T) {
	for _, to := range []shard.ID{placement.MaxShards, 5000, shard.System} {
		synctest.Test(t, func(t *testing.T) {
			table := slot.Even(1)
			router, portals := newPortals(&table, 1, false)
			portals[0].answer = movedTo(to)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wantCode(t, fmt.Sprint("sent to shard ", to), router.Decide(ctx, []shard.Request{check("k")}),
				shard.Unavailable)
			if n := len(*router.routes.Load()); n > placement.MaxShards {
				t.Errorf("sent to shard %d, the node has %d routes", to, n)
			}
		})
	}
}

// A reservation of slots that are about to part is done slot by slot, in an operation.
func TestAReservationInSlotsThatPartIsAnOperation(t *testing.T) {
	table := slot.Even(1)
	router, portals := newPortals(&table, 1, false)
	portals[0].answer = func(r *shard.Request) *shard.Error {
		if r.Op == shard.Reserve {
			return &shard.Error{Code: shard.Spread, Message: "about to part"}
		}
		return &shard.Error{Code: shard.PolicyNotFound, Message: "no such policy"}
	}
	r := check("a", "b")
	r.Op, r.Hold = shard.Reserve, &shard.HoldTerms{TTL: 1_000_000}
	wantCode(t, "as an operation", router.Decide(t.Context(), []shard.Request{r}), shard.PolicyNotFound)
	if last := portals[0].asked[1]; last.Op != shard.Charge || len(last.Entries) != 1 {
		t.Errorf("then it was asked %+v", last)
	}
}

// A caller whose patience ends while its keys part hears so, and not of a slot that the answer does not name.
func TestACallerHearsThatItsKeysPart(t *testing.T) {
	table := slot.Even(2)
	router, portals := newPortals(&table, 2, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	for i, p := range portals {
		p.answer = func(r *shard.Request) *shard.Error {
			if asked++; asked < 3 {
				return movedTo(shard.ID(1 - i))(r)
			}
			cancel()
			return &shard.Error{Code: shard.Spread, Message: "about to part"}
		}
	}
	err := router.Decide(ctx, []shard.Request{check("k")})[0].Err
	if err == nil || err.Code != shard.Unavailable ||
		err.Message != "slots of the request are moving between shards; nothing was counted, ask again" {
		t.Error(err)
	}
}

// A refund of which only one slot made its part is not refused: it is neither done nor undone, and goes on when asked
// again.
func TestARefundThatIsHalfDoneIsNotRefused(t *testing.T) {
	table := slot.Even(3)
	router, portals := newPortals(&table, 3, false)
	portals[1].answer = func(*shard.Request) *shard.Error { return diskFull }
	wantCode(t, "the second part", router.Decide(t.Context(), []shard.Request{refundOnTwo()}), shard.UnknownOutcome)
	portals[1].answer = func(*shard.Request) *shard.Error { return nil }
	wantAllowed(t, "asked again", router.Decide(t.Context(), []shard.Request{refundOnTwo()}))
}

// A refund by parts begins at home: without home's part there is no other.
func TestARefundThatHomeRefusesIsMadeNowhere(t *testing.T) {
	table := slot.Even(3)
	router, portals := newPortals(&table, 3, false)
	portals[0].answer = func(r *shard.Request) *shard.Error {
		if r.Op == shard.Settle {
			return diskFull
		}
		return nil
	}
	wantCode(t, "home's part", router.Decide(t.Context(), []shard.Request{refundOnTwo()}), shard.Unavailable)
	if n := len(portals[1].asked); n != 0 {
		t.Errorf("the other shard was asked %d times", n)
	}
}

// A node with an old table believes keys to be parted that are together. Whether they are is for their shard to say:
// "has ended" would leave a hold open, and not count its commit.
func TestAnOldTableEndsNoHold(t *testing.T) {
	first, second := keyOn(0, "first"), keyOn(1, "second")
	for name, keys := range map[string][]string{"home first": {first, second}, "home last": {second, first}} {
		for _, at := range []map[string]shard.ID{{first: 0, second: 0}, {first: 1, second: 1}, {first: 2, second: 2},
			{first: 0, second: 1}, {first: 1, second: 0}, {first: 2, second: 0}} {
			together := at[first] == at[second]
			for _, target := range []shard.Target{{Hold: true, Position: shard.Position{Epoch: 1, Seq: 1}},
				{Index: 1, DecidedAt: 1}} {
				table := slot.Even(3)
				router, portals := newPortals(&table, 3, false)
				for id, p := range portals {
					p.answer = func(r *shard.Request) *shard.Error {
						for i, e := range r.Entries {
							toHome := r.Op == shard.AskHome && e.Key != first // it is about home's slot alone
							if to := at[e.Key]; to != shard.ID(id) && !toHome {
								return movedTo(to)(&shard.Request{Namespace: r.Namespace, Entries: r.Entries[i:]})
							}
						}
						return nil
					}
				}
				r := check(keys...)
				r.Namespace, r.Op = "n", shard.Settle
				r.Settlement = &shard.Settlement{Action: shard.ActionCommit, Overage: shard.OverageReject,
					Actual: []uint64{1, 1}, Target: target}
				got := router.Decide(t.Context(), []shard.Request{r})
				what := fmt.Sprintf("%s, hold %v, at %v", name, target.Hold, at)
				switch {
				case together:
					wantAllowed(t, what, got)
				case target.Hold:
					wantCode(t, what, got, shard.HoldEnded)
				default:
					wantCode(t, what, got, shard.Invalid)
				}
			}
		}
	}
}

// A settlement whose answer was lost, and whose keys have parted since, is answered by what home remembers of it.
func TestACopyOfASettlementOutlivesThatItsKeysPart(t *testing.T) {
	table := slot.Even(3)
	router, portals := newPortals(&table, 3, false)
	r := refundOnTwo()
	r.ID, r.Settlement.Target = "x", shard.Target{Hold: true, Position: shard.Position{Epoch: 1, Seq: 1}}
	portals[0].answer = func(r *shard.Request) *shard.Error {
		switch {
		case r.Op != shard.Settle:
			return nil
		case !portals[0].settled:
			portals[0].settled = true
			return failure(shard.UnknownOutcome)
		}
		return movedTo(1)(&shard.Request{Namespace: r.Namespace, Entries: r.Entries[1:]})
	}
	wantAllowed(t, "the copy", router.Decide(t.Context(), []shard.Request{r}))
}

// diskFull refuses for longer than a router waits.
var diskFull = &shard.Error{Code: shard.Unavailable, RetryAfter: LongWait, Message: "its disk is full"}

// refundOnTwo refunds a decision of one shard whose keys are on shards 0 and 1 now.
func refundOnTwo() shard.Request {
	r := check(keyOn(0, "first"), keyOn(1, "second"))
	r.Namespace = "n"
	r.Op, r.Settlement = shard.Settle, &shard.Settlement{Action: shard.ActionCancel,
		Target: shard.Target{Index: 1, DecidedAt: 1}}
	return r
}

// A copy of a request with an unknown outcome goes to the shard that may have counted it, even if the slot is known to
// be elsewhere meanwhile. With an id it goes on as a copy at the next shard. In a session it is new there, since no
// copy can count at the first shard any more.
func TestACopyAsksItsShardFirst(t *testing.T) {
	for name, c := range map[string]struct {
		sessions, wantRetry bool
		id                  string
	}{
		"with an id": {false, true, "x"}, "in a session": {true, false, ""}, "with both": {true, true, "x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := slot.Even(1)
			router, portals := newPortals(&table, 3, c.sessions)
			asked := 0
			portals[0].answer = func(r *shard.Request) *shard.Error {
				if r.Op == shard.OpenSession {
					return nil
				}
				if asked++; asked == 1 {
					newer := *table
					newer[slot.Of("default", "k")] = 2
					table = &newer
					return failure(shard.UnknownOutcome)
				}
				return movedTo(2)(r)
			}
			r := check("k")
			r.ID = c.id
			wantAllowed(t, name, router.Decide(t.Context(), []shard.Request{r}))
			last := portals[2].asked[len(portals[2].asked)-1]
			if asked != 2 || last.Retry != c.wantRetry {
				t.Errorf("%s: the first shard was asked %d times, the next one with retry %v", name, asked, last.Retry)
			}
		})
	}
}

// A shard that is just taking over a slot is asked again at once, as it says, and not as one that has no owner.
func TestAShardThatTakesOverASlotIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := slot.Even(1)
		router, portals := newPortals(&table, 1, false)
		portals[0].answer = func(*shard.Request) *shard.Error {
			if len(portals[0].asked) > 2 {
				return nil
			}
			return &shard.Error{Code: shard.Unavailable, RetryAfter: 10e3, Message: "in a moment"}
		}
		begin := time.Now()
		wantAllowed(t, "in a moment", router.Decide(t.Context(), []shard.Request{check("k")}))
		if took := time.Since(begin); took != 3*momentLeast {
			t.Errorf("it took %v, want 10 ms and then 20 ms", took)
		}
	})
}
