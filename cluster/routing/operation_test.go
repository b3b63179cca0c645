package routing

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// ballast is the prior usage of every private key, so that it shows when too much is given back.
const ballast = 100

// voyage is one operation that clients ask for, perhaps several times under its id. On each of its shards it has a
// private key, which shows whether the operation is counted there, and perhaps a key that it shares with others.
type voyage struct {
	id      string // "": none
	number  int
	asks    int
	request shard.Request
	shards  []shard.ID // shard of each entry
	own     []bool     // whether each entry's key is private

	mu                                sync.Mutex
	allowed, denied, unknown, refused int // answers
	settled                           []*shard.Settlement
	ended                             []*shard.Settlement // told that it has ended in another way
	rejected                          int                 // settlements that did not fit
}

func (w *archipelago) voyage(number int) *voyage {
	v := &voyage{number: number}
	if w.draw(2) == 0 {
		v.id = fmt.Sprintf("client-%d", number)
	}
	op := []shard.Op{shard.Check, shard.Check, shard.Reserve, shard.Reserve, shard.Count, shard.Partial}[w.draw(6)]
	v.request = shard.Request{Op: op, Namespace: "n", ID: v.id}
	if op == shard.Reserve {
		v.request.Hold = &shard.HoldTerms{TTL: limit.Span(500_000 + w.draw(9_000_000)),
			OnExpire: policy.OnExpire(w.draw(3))}
	}
	first, apart := w.draw(3), 1
	if w.moving {
		apart = w.draw(2)
	}
	for i := range 2 + w.draw(2) {
		id := shard.ID((first + i*apart) % 3)
		key := keyOn(id, fmt.Sprint("own", number, ".", i))
		v.add(id, "own", key, 1+w.draw(3))
		w.shards[id].commit([]shard.Request{{Op: shard.Count, Namespace: "n",
			Entries: []shard.Entry{{Policy: "own", Key: key, Cost: ballast}}}})
		if op == shard.Check || op == shard.Reserve {
			cost := 1 + w.draw(3)
			if op == shard.Check && w.draw(4) == 0 {
				cost = 0 // a look
			}
			if key := keyOn(id, fmt.Sprint("shared", w.draw(sharedKeys))); !v.has(key) {
				v.add(id, "shared", key, cost)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range v.request.Entries {
		w.keys = append(w.keys, v.request.Entries[i].Key)
	}
	return v
}

func (v *voyage) add(id shard.ID, policy, key string, cost int) {
	v.shards, v.own = append(v.shards, id), append(v.own, policy == "own")
	v.request.Entries = append(v.request.Entries, shard.Entry{Policy: policy, Key: key, Cost: uint64(cost)})
}

func (v *voyage) has(key string) bool {
	return slices.ContainsFunc(v.request.Entries, func(e shard.Entry) bool { return e.Key == key })
}

// mortalNode makes a node that may vanish in the middle of an operation.
func (w *archipelago) mortalNode() *mortal {
	life := 1 << 30
	if w.draw(3) == 0 {
		life = w.draw(9)
	}
	return w.node(life)
}

// ask has the operation carried out once, and perhaps settled.
func (v *voyage) ask(w *archipelago) {
	node := w.mortalNode()
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+w.draw(8000))*time.Millisecond)
	defer cancel()
	result := node.Decide(ctx, cloneRequests([]shard.Request{v.request}))[0]
	if node.dead() {
		return // the answer is lost
	}
	v.hear(w, &result)
	if result.Err != nil || !result.Decision.Allowed {
		return
	}
	for range w.draw(3) {
		time.Sleep(time.Duration(w.draw([]int{1000, 6000, 200_000}[w.draw(3)])) * time.Millisecond)
		request := v.settlement(w, &result.Decision)
		v.settle(w, request)
		for range w.draw(3) { // again, perhaps when slots have moved
			time.Sleep(time.Duration(w.draw(10_000)) * time.Millisecond)
			v.settle(w, request)
		}
	}
}

func (v *voyage) hear(w *archipelago, result *shard.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch err := result.Err; {
	case err == nil && result.Decision.Allowed:
		v.allowed++
	case err == nil:
		v.denied++
	case err.MaybeApplied():
		v.unknown++
	default:
		v.refused++
	}
	if err := result.Err; err == nil && len(result.Decision.Limits) != len(v.request.Entries) {
		w.Errorf("seed %d: %d statuses for %d entries", w.seed, len(result.Decision.Limits), len(v.request.Entries))
	}
}

// settlement returns some settlement of the operation's hold or of its decision.
func (v *voyage) settlement(w *archipelago, d *shard.Decision) shard.Request {
	s := &shard.Settlement{Action: shard.Action(1 + w.draw(5)), Target: shard.Target{Hold: d.HoldExpires != 0,
		Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}
	if d.Operation != nil {
		s.Target.Operation, s.Target.Home = d.Operation.ID, d.Operation.Home
	}
	if w.draw(3) == 0 {
		s.Action, s.Overage = shard.ActionCommit, shard.OverageReject
	}
	switch {
	case s.Action == shard.ActionExtend && !s.Target.Hold:
		s.Action = shard.ActionCancel
	case s.Action == shard.ActionExtend:
		s.TTL = limit.Span(100_000 + w.draw(9_000_000))
	case s.Action == shard.ActionCommit && w.draw(3) > 0:
		for i, entry := range v.request.Entries {
			most := entry.Cost
			switch {
			case s.Overage == shard.OverageReject:
				most += 4
			case v.own[i]: // on shared keys the counted amount depends on the room
				most += 2
			}
			s.Actual = append(s.Actual, uint64(w.draw(int(most)+1)))
		}
	}
	request := shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&v.request, d), Settlement: s}
	if w.draw(2) == 0 {
		request.ID = fmt.Sprint("settles ", v.number, " ", w.draw(1_000_000))
	}
	return request
}

// settle asks for a settlement.
func (v *voyage) settle(w *archipelago, request shard.Request) {
	s := request.Settlement
	node := w.mortalNode()
	defer node.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+w.draw(8000))*time.Millisecond)
	defer cancel()
	result := node.Decide(ctx, cloneRequests([]shard.Request{request}))[0]
	if request.ID != "" && result.Err == nil && s.Action == shard.ActionExtend {
		time.Sleep(time.Duration(w.draw(3000)) * time.Millisecond)
		again := node.Decide(ctx, cloneRequests([]shard.Request{request}))[0]
		if again.Err == nil && again.Decision.HoldExpires != result.Decision.HoldExpires {
			w.Errorf("seed %d: operation %d: one extension ends at %d, and its copy at %d",
				w.seed, v.number, result.Decision.HoldExpires, again.Decision.HoldExpires)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case node.dead():
	case result.Err == nil && s.Action != shard.ActionExtend:
		v.settled = append(v.settled, s)
	case result.Err != nil && result.Err.Code == shard.OverQuota:
		v.rejected++
	case result.Err != nil && (result.Err.Code == shard.HoldEnded || result.Err.Code == shard.IDReused):
		v.ended = append(v.ended, s)
	}
}

// due returns how much the i-th entry must have used in the end, according to home's ruling.
func (v *voyage) due(f *ruledAs, i int) uint64 {
	cost := v.request.Entries[i].Cost
	switch {
	case f == nil || f.state == shard.OperationAborted:
		return 0
	case f.ended != nil:
		return v.dueAlone(f, i)
	case f.state == shard.OperationCommitted:
		return cost
	case f.how == nil && v.request.Hold.OnExpire == policy.OnExpireCommit:
		return cost
	case f.how == nil, f.how.Action == shard.ActionCancel, f.how.Action == shard.ActionSuccess:
		return 0
	case f.how.Actual != nil:
		return f.how.Actual[i]
	}
	return cost
}

// dueAlone is due for an operation that one shard has decided.
func (v *voyage) dueAlone(f *ruledAs, i int) uint64 {
	cost := v.request.Entries[i].Cost
	switch e, ended := f.ended[v.request.Entries[i].Key]; {
	case !ended && v.request.Op == shard.Reserve && v.request.Hold.OnExpire != policy.OnExpireCommit:
		return 0
	case !ended:
		return cost
	case e.action == shard.ActionCancel, e.action == shard.ActionSuccess:
		return 0
	case e.actual != nil:
		return *e.actual
	}
	return cost
}

// settledBy reports whether a settlement is how the operation ended.
func (v *voyage) settledBy(f *ruledAs, s *shard.Settlement) bool {
	switch {
	case f == nil:
		return false
	case f.ended == nil:
		return f.how != nil && f.how.Action == s.Action && f.how.Overage == s.Overage &&
			slices.Equal(f.how.Actual, s.Actual)
	}
	for i := range v.request.Entries {
		e, ended := f.ended[v.request.Entries[i].Key]
		if !ended || e.action != s.Action || e.overage != s.Overage || (e.actual != nil) != (s.Actual != nil) ||
			e.actual != nil && *e.actual != s.Actual[i] {
			return false
		}
	}
	return true
}

// historyOf returns the messages that the shards received about an operation.
func (w *archipelago) historyOf(f *ruledAs) (lines string) {
	if f != nil {
		lines = "\n" + strings.Join(w.history[f.id], "\n")
	}
	return lines
}

// judge checks the answers, home's ruling and the counts against each other, and adds what is due on shared keys to
// sums.
func (v *voyage) judge(w *archipelago, sums map[string]uint64) {
	f := w.byKey[v.request.Entries[0].Key]
	for i, id := range v.shards {
		due := v.due(f, i)
		if !v.own[i] {
			sums[v.request.Entries[i].Key] += due
			continue
		}
		if used := w.usedAt("own", v.request.Entries[i].Key) - ballast; used != due {
			w.Errorf("seed %d: operation %d has counted %d on shard %v, where %d is due by %+v:%s", w.seed, v.number,
				used, id, due, f, w.historyOf(f))
		}
	}
	committed := f != nil && f.state != shard.OperationAborted
	switch {
	case v.allowed > 0 && !committed:
		w.Errorf("seed %d: operation %d was allowed and is not counted", w.seed, v.number)
	case v.denied > 0 && committed && (v.asks == 1 || !w.moving): // one shard alone remembers no denial of an id
		w.Errorf("seed %d: operation %d was denied and is counted", w.seed, v.number)
	case v.id == "" && v.refused > 0 && committed:
		w.Errorf("seed %d: operation %d was told as not counted and is", w.seed, v.number)
	}
	for _, s := range v.settled {
		if !v.settledBy(f, s) {
			w.Errorf("seed %d: operation %d was told as settled by %+v, and is so by %+v", w.seed, v.number, s, f)
		}
	}
	for _, s := range v.ended {
		if v.settledBy(f, s) {
			w.Errorf("seed %d: operation %d was told as not settled by %+v, and is so: %+v", w.seed, v.number, s, f)
		}
	}
}

// sail runs a world and checks it.
func (w *archipelago) sail(count int) {
	w.private = true
	var voyages []*voyage
	var group sync.WaitGroup
	for number := range count {
		v := w.voyage(number)
		voyages = append(voyages, v)
		v.asks = 1
		if v.id != "" {
			v.asks += w.draw(3)
		}
		for range v.asks {
			begin := time.Duration(w.draw(40_000)) * time.Millisecond
			if w.draw(2) == 0 {
				begin = time.Duration(number) * 300 * time.Millisecond
			}
			group.Go(func() {
				time.Sleep(begin)
				v.ask(w)
			})
		}
	}
	group.Wait()
	w.settleDown()
	sums := map[string]uint64{}
	for _, v := range voyages {
		v.judge(w, sums)
	}
	for _, s := range w.shards {
		for k := range sharedKeys {
			key := keyOn(s.id, fmt.Sprint("shared", k))
			if used := w.usedAt("shared", key); used != sums[key] {
				w.Errorf("seed %d: %q has used %d, the operations that are counted make %d",
					w.seed, key, used, sums[key])
			}
		}
	}
	w.close()
	for _, v := range voyages {
		w.heard.allowed += v.allowed
		w.heard.denied += v.denied
		w.heard.definite += v.refused
		w.heard.unknown += v.unknown
		w.rejected += v.rejected
	}
}

// Whatever fails or vanishes, an operation is counted everywhere or nowhere, as answered to its caller. Nothing is
// admitted above a quota, and nothing is left open.
func TestAnOperationIsAllOrNothing(t *testing.T) {
	var all tally
	exceeded, rejected := 0, 0
	first, worlds := firstSeed(t), worldsToPlay()
	// Courses are waited for, since a few worlds may pass without the rare ones.
	unseen := func() bool {
		return worlds >= enoughWorlds && (exceeded < worlds/4 || rejected == 0 || all.unknown < worlds/4 ||
			all.allowed < worlds || all.denied < worlds || all.definite < worlds)
	}
	for i := 0; i < worlds || i < 10*worlds && unseen(); i++ {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := newArchipelago(t, seed)
			w.sail(40)
			all.allowed += w.heard.allowed
			all.denied += w.heard.denied
			all.definite += w.heard.definite
			all.unknown += w.heard.unknown
			exceeded += w.exceeded
			rejected += w.rejected
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("allowed, denied, refused, unknown: %v; settled above what was taken: %d, rejected: %d",
		all, exceeded, rejected)
	if unseen() {
		t.Errorf("%d worlds are too calm or too rough: %+v; %d settlements had room above what was taken, %d had none",
			10*worlds, all, exceeded, rejected)
	}
}

// calmSeas runs play in a world in which nothing fails and every message takes a millisecond.
func calmSeas(t *testing.T, play func(w *archipelago, node *mortal)) {
	synctest.Test(t, func(t *testing.T) {
		w := newArchipelago(t, 1)
		w.mu.Lock()
		w.calm = true
		w.mu.Unlock()
		node := w.node(1 << 30)
		play(w, node)
		node.Close()
		w.close()
	})
}

// acrossAll returns a request with one key on each shard.
func acrossAll(op shard.Op, name string, shards ...shard.ID) shard.Request {
	r := shard.Request{Op: op, Namespace: "n"}
	for _, id := range shards {
		r.Entries = append(r.Entries, shard.Entry{Policy: "own", Key: keyOn(id, name), Cost: 1})
	}
	return r
}

func TestACheckOfSeveralShardsTakesTwoCommits(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		for name, want := range map[string]time.Duration{"": 2 * time.Millisecond, "an id": 3 * time.Millisecond} {
			r := acrossAll(shard.Check, "k"+name, 0, 1, 2)
			r.ID = name
			began := time.Now()
			result := node.Decide(w.Context(), []shard.Request{r})[0]
			if took := time.Since(began); result.Err != nil || !result.Decision.Allowed || !w.sessions && took != want {
				t.Errorf("id %q: after %v %+v, want it allowed after %v", name, took, result, want)
			}
		}
	})
}

func TestManyOperationsOfOneBatchGoTogether(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		var requests []shard.Request
		for i := range 4 * maxAcross {
			requests = append(requests, acrossAll(shard.Check, fmt.Sprint("k", i), 0, 1+shard.ID(i%2)))
		}
		began := time.Now()
		for i, result := range node.Decide(w.Context(), requests) {
			if result.Err != nil || !result.Decision.Allowed ||
				result.Decision.Limits[0].Key != requests[i].Entries[0].Key {
				t.Fatalf("request %d: %+v", i, result)
			}
		}
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("%d operations took %v", len(requests), took)
		}
	})
}

func TestStatusesComeInTheOrderOfTheEntries(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		for _, op := range []shard.Op{shard.Check, shard.Peek, shard.Get, shard.Count, shard.Partial} {
			r := acrossAll(op, "a", 2, 0, 1)
			r.Entries = append(r.Entries, acrossAll(op, "b", 0, 2).Entries...)
			d := node.Decide(w.Context(), []shard.Request{r})[0].Decision
			if len(d.Limits) != len(r.Entries) {
				t.Fatalf("op %d: %d statuses of %d entries", op, len(d.Limits), len(r.Entries))
			}
			for i := range r.Entries {
				if d.Limits[i].Key != r.Entries[i].Key || op == shard.Partial && d.Limits[i].Granted != 1 {
					t.Errorf("op %d: status %d is %+v, the entry %+v", op, i, d.Limits[i], r.Entries[i])
				}
			}
		}
	})
}

func TestADenialByOneShardNamesTheLongestWait(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		r := acrossAll(shard.Check, "k", 0, 1)
		r.Entries[1].Cost = 5000
		for range 2 {
			d := node.Decide(w.Context(), []shard.Request{r})[0].Decision
			if d.Allowed || d.RetryAfter != limit.Never || !d.Limits[0].Allowed || d.Limits[0].Used != 0 ||
				d.Limits[1].Allowed {
				t.Errorf("denied by one of two: %+v", d)
			}
		}
	})
}

func TestAnErrorOfOneShardNamesTheEntryOfTheRequest(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		for place := range 3 {
			r := acrossAll(shard.Check, "k", 2, 1, 0)
			r.Entries[place].Policy = "unknown"
			err := node.Decide(w.Context(), []shard.Request{r})[0].Err
			if err == nil || err.Code != shard.PolicyNotFound || err.Field != fmt.Sprintf("entries[%d].policy", place) {
				t.Errorf("entry %d has an unknown policy: %+v", place, err)
			}
		}
		time.Sleep(time.Second)
		for _, s := range w.shards {
			s.mu.Lock()
			if used, _ := s.used("own", keyOn(s.id, "k")); used != 0 {
				t.Errorf("shard %v has counted %d", s.id, used)
			}
			s.mu.Unlock()
		}
	})
}

// The entries of a message are of the slot that it is for. Whether the shard has that slot, it says itself.
func TestAMessageOfAnOperationNamesKeysOfItsSlot(t *testing.T) {
	about := func(leg shard.ID) *shard.Operation {
		return &shard.Operation{ID: "x", Op: shard.Check, Home: slot.Of("n", keyOn(0, "k")),
			Leg: slot.Of("n", keyOn(leg, "k"))}
	}
	entries := func(id shard.ID) []shard.Entry { return acrossAll(shard.Check, "k", id).Entries }
	for i, wrong := range []shard.Request{
		{Op: shard.Conclude, Operation: about(0), Entries: entries(1)},
		{Op: shard.Charge, Operation: about(0), Entries: entries(0)}, // home is no leg
		{Op: shard.Charge, Operation: about(1), Entries: entries(2)},
		{Op: shard.FinishLeg, Operation: about(0)},
		{Op: shard.Check, Operation: about(1), Entries: entries(1)},
		{Op: shard.Charge, Entries: entries(1)},
	} {
		wrong.Namespace = "n"
		if err := misplaced(1, &wrong); err == nil || err.Code != shard.Invalid {
			t.Errorf("message %d: %v", i, err)
		}
	}
	for i, right := range []shard.Request{
		{Op: shard.AskHome, Operation: about(0)},
		{Op: shard.Conclude, Operation: about(0), Entries: entries(0)},
		{Op: shard.Charge, Operation: about(1), Entries: entries(1)},
		{Op: shard.ResolveHome, Operation: about(1)},
		{Op: shard.Acknowledge, Operation: about(1)},
		{Op: shard.FinishLeg, Operation: about(1)},
		{Op: shard.Settle, Operation: about(0), Entries: append(entries(0), entries(1)...)},
	} {
		right.Namespace = "n"
		if err := misplaced(1, &right); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// If the answer to a settlement is lost, a retry gets the same answer, with the parts of all shards.
func TestASettlementAskedForAgainIsAnsweredWhole(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		for i, op := range []shard.Op{shard.Reserve, shard.Check, shard.Check} {
			r := acrossAll(op, fmt.Sprint("k", i), 2, 0, 1)
			if op == shard.Reserve {
				r.Hold = &shard.HoldTerms{TTL: limit.Span(time.Minute / time.Microsecond)}
			}
			d := node.Decide(w.Context(), []shard.Request{r})[0].Decision
			if i == 2 { // home has forgotten it; the legs have not
				time.Sleep(5 * time.Minute)
			}
			time.Sleep(time.Second)
			s := &shard.Settlement{Action: shard.ActionCancel, Target: shard.Target{Hold: op == shard.Reserve,
				Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}
			if d.Operation != nil {
				s.Target.Operation, s.Target.Home = d.Operation.ID, d.Operation.Home
			}
			settle := shard.Request{Op: shard.Settle, Namespace: "n", Entries: shard.Taken(&r, &d), Settlement: s}
			first := node.Decide(w.Context(), []shard.Request{settle})[0]
			other := acrossAll(shard.Count, fmt.Sprint("k", i), 2, 0, 1)
			if counted := node.Decide(w.Context(), []shard.Request{other})[0]; counted.Err != nil {
				t.Fatal(counted.Err)
			}
			again := node.Decide(w.Context(), []shard.Request{settle})[0]
			if first.Err != nil || again.Err != nil || len(first.Decision.Limits) != 3 || !again.Decision.Replayed ||
				!reflect.DeepEqual(again.Decision.Limits, first.Decision.Limits) {
				t.Errorf("op %d: settled: %+v\nagain: %+v", op, first, again)
			}
		}
	})
}

// A reserve that is denied because all seats are taken names the time when the next one is free, whichever shard is
// full and however often the holds were extended. A retry 250 ms later gets the seat.
func TestWhoWaitsForASeatOnSeveralShardsHasIt(t *testing.T) {
	for name, full := range map[string][]shard.ID{"home": {0}, "a leg": {1}, "all": {0, 1, 2}} {
		calmSeas(t, func(w *archipelago, node *mortal) {
			reserve := func(who string, ttl time.Duration) shard.Decision {
				r := acrossAll(shard.Reserve, who, 0, 1, 2)
				r.Hold = &shard.HoldTerms{TTL: limit.Span(ttl / time.Microsecond)}
				for _, id := range full {
					r.Entries[id] = shard.Entry{Policy: "seats", Key: keyOn(id, "bus"), Cost: 1}
				}
				result := node.Decide(w.Context(), []shard.Request{r})[0]
				if result.Err != nil {
					t.Fatal(result.Err)
				}
				return result.Decision
			}
			first := reserve("ann", 20*time.Second)
			for _, who := range []string{"bob", "eve"} {
				if d := reserve(who, time.Minute); !d.Allowed {
					t.Fatalf("%s: %s is denied: %+v", name, who, d)
				}
			}
			left := func(ends limit.Time) time.Duration { return time.Duration(ends-now()) * time.Microsecond }
			denied := func(when string, ends limit.Time) time.Duration {
				d := reserve("dan", time.Minute)
				wait := time.Duration(d.RetryAfter) * time.Microsecond
				if exact := left(ends); d.Allowed || (wait-exact).Abs() > 10*time.Millisecond {
					t.Fatalf("%s, %s: the next seat is free in %v, and told is %v: %+v", name, when, exact, wait, d)
				}
				for _, status := range d.Limits {
					if status.Policy == "seats" && status.RetryAfter == limit.Never {
						t.Errorf("%s, %s: never, says %+v", name, when, status)
					}
				}
				return wait
			}
			time.Sleep(7 * time.Second)
			denied("at first", first.HoldExpires)
			extend := shard.Request{Op: shard.Settle, Namespace: "n",
				Settlement: &shard.Settlement{Action: shard.ActionExtend,
					TTL: limit.Span(30 * time.Second / time.Microsecond),
					Target: shard.Target{Hold: true, DecidedAt: first.DecidedAt,
						Operation: first.Operation.ID, Home: first.Operation.Home}}}
			for _, s := range first.Limits {
				extend.Entries = append(extend.Entries, shard.Entry{Policy: s.Policy, Key: s.Key, Cost: 1})
			}
			extended := node.Decide(w.Context(), []shard.Request{extend})[0]
			if extended.Err != nil {
				t.Fatal(extended.Err)
			}
			time.Sleep(time.Second)
			wait := denied("extended", extended.Decision.HoldExpires)
			time.Sleep(wait - 50*time.Millisecond)
			denied("nearly over", extended.Decision.HoldExpires)
			time.Sleep(300 * time.Millisecond)
			if d := reserve("dan", time.Minute); !d.Allowed {
				t.Errorf("%s: 250 ms after it was over: %+v", name, d)
			}
		})
	}
}

// Extensions are counted once, regardless of repetitions, even without an id: a node repeats their messages.
func TestALateCopyOfAnExtensionMovesNothing(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		reserve := acrossAll(shard.Reserve, "k", 0, 1)
		reserve.Hold = &shard.HoldTerms{TTL: limit.Span(time.Minute / time.Microsecond)}
		held := node.Decide(w.Context(), []shard.Request{reserve})[0].Decision
		extend := func(id string, ttl time.Duration) shard.Decision {
			r := shard.Request{Op: shard.Settle, Namespace: "n", ID: id, Entries: shard.Taken(&reserve, &held),
				Settlement: &shard.Settlement{
					Action: shard.ActionExtend, TTL: limit.Span(ttl / time.Microsecond),
					Target: shard.Target{Hold: true,
						DecidedAt: held.DecidedAt, Operation: held.Operation.ID, Home: held.Operation.Home}}}
			result := node.Decide(w.Context(), cloneRequests([]shard.Request{r}))[0]
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			return result.Decision
		}
		first, second := extend("first", time.Minute), extend("second", time.Hour)
		if late := extend("first", time.Minute); !late.Replayed || late.HoldExpires != first.HoldExpires ||
			len(late.Limits) != 2 {
			t.Errorf("the late copy is answered %+v", late)
		}
		time.Sleep(2 * time.Minute)
		if last := extend("", time.Hour); last.HoldExpires <= second.HoldExpires {
			t.Errorf("the hold ends at %d, and was to end at %d before", last.HoldExpires, second.HoldExpires)
		}
	})
}

// A client that has used up a key of its own no longer takes anything from other keys, not even briefly.
func TestADenialByHomeChargesNoLegAgain(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		decide := func(r shard.Request) shard.Result { return node.Decide(w.Context(), []shard.Request{r})[0] }
		charges := func() int {
			w.shards[1].mu.Lock()
			defer w.shards[1].mu.Unlock()
			return w.shards[1].asked[shard.Charge]
		}
		r := acrossAll(shard.Count, "k", 0, 1)
		r.Entries[0].Cost = 1000
		if result := decide(r); result.Err != nil {
			t.Fatal(result.Err)
		}
		before := charges()
		if d := decide(acrossAll(shard.Check, "k", 1, 0)).Decision; d.Allowed {
			t.Fatalf("the first: %+v", d)
		}
		time.Sleep(time.Second) // until the leg is released
		for i, op := range []shard.Op{shard.Check, shard.Check, shard.Partial, shard.Reserve, shard.Check, shard.Check,
			shard.Reserve} {
			r := acrossAll(op, "k", 1, 0)
			if op == shard.Reserve {
				r.Hold = &shard.HoldTerms{TTL: limit.Span(time.Minute / time.Microsecond)}
			}
			if i >= 4 {
				r.ID = fmt.Sprint("id ", i)
			}
			for copy := range 2 {
				d := decide(r).Decision
				if d.Allowed || d.RetryAfter != limit.Never || len(d.Limits) != 2 || d.Limits[0].Used != 1 ||
					d.Limits[0].Key != r.Entries[0].Key || d.Limits[1].Used != 1000 ||
					d.Operation.State != shard.OperationAborted || d.Replayed != (r.ID != "" && copy == 1) {
					t.Errorf("op %d, request %d, copy %d: %+v %+v", op, i, copy, d, d.Operation)
				}
			}
		}
		if n := charges() - before; n != 1 {
			t.Errorf("the leg was charged %d times, want once: before the first denial", n)
		}
		reset := shard.Request{Op: shard.Reset, Namespace: "n",
			Entries: []shard.Entry{{Policy: "own", Key: keyOn(0, "k")}}}
		if result := decide(reset); result.Err != nil {
			t.Fatal(result.Err)
		}
		if result := decide(acrossAll(shard.Check, "k", 1, 0)); result.Err != nil || !result.Decision.Allowed {
			t.Errorf("when there is room again: %+v", result)
		}
	})
}

// The other legs are also not charged again where the used-up key lives on a leg, and where a shard refuses its part.
// In calm seas a charge that was taken back shows only in the number of charges.
func TestNoKeyIsHeldForWhatIsDeniedOrRefusedAgain(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		decide := func(r shard.Request) shard.Result { return node.Decide(w.Context(), []shard.Request{r})[0] }
		charges := func() int {
			w.shards[2].mu.Lock()
			defer w.shards[2].mu.Unlock()
			return w.shards[2].asked[shard.Charge]
		}
		used := acrossAll(shard.Count, "used", 0, 1)
		used.Entries[1].Cost = 1000
		if result := decide(used); result.Err != nil {
			t.Fatal(result.Err)
		}
		for place, change := range map[string]func(e []shard.Entry){
			"a leg denies":           func(e []shard.Entry) { e[1].Key = keyOn(1, "used") },
			"home has no policy":     func(e []shard.Entry) { e[0].Policy = "none" },
			"a leg has no such tier": func(e []shard.Entry) { e[1].Tier = "none" },
		} {
			for _, op := range []shard.Op{shard.Check, shard.Count} {
				if op == shard.Count && place == "a leg denies" {
					continue
				}
				r := acrossAll(op, fmt.Sprint(place, op), 0, 1, 2)
				change(r.Entries)
				first, before := decide(r), charges()
				for _, id := range []string{"", "", place, place} {
					r.ID = id
					again := decide(r)
					if again.Err == nil != (first.Err == nil) || again.Err == nil && (again.Decision.Allowed ||
						again.Decision.RetryAfter != first.Decision.RetryAfter || len(again.Decision.Limits) != 3) ||
						again.Err != nil && (again.Err.Code != first.Err.Code || again.Err.Field != first.Err.Field) {
						t.Errorf("%s, id %q: first %+v, then %+v", place, id, first, again)
					}
				}
				if n := charges() - before; n != 0 {
					t.Errorf("%s, op %d: the other leg was charged %d times more", place, op, n)
				}
			}
		}
	})
}

// A shard with newer policies than the coordinating node refuses its part, and nothing is counted anywhere.
func TestOlderPoliciesAreRefusedByAnyShard(t *testing.T) {
	calmSeas(t, func(w *archipelago, node *mortal) {
		own, _ := w.policies.Lookup("own")
		shared, _ := w.policies.Lookup("shared")
		child := *own
		child.Name, child.Parent = "child", "own"
		for _, s := range w.shards {
			s.mu.Lock()
		}
		w.policies = policy.NewSet([]*policy.Policy{own, shared, &child}).At(2)
		for _, s := range w.shards {
			s.mu.Unlock()
		}
		r := acrossAll(shard.Check, "a/b", 0, 1, 2)
		r.Entries[2].Policy, r.Revision = "child", 1
		if result := node.Decide(w.Context(), []shard.Request{r})[0]; result.Err == nil ||
			result.Err.Code != shard.Outdated || result.Err.Field != "entries[2].policy" {
			t.Errorf("made by older policies: %+v", result)
		}
		time.Sleep(time.Second)
		for _, s := range w.shards {
			s.mu.Lock()
			if used, _ := s.used(r.Entries[s.id].Policy, r.Entries[s.id].Key); used != 0 {
				t.Errorf("shard %v has counted %d", s.id, used)
			}
			s.mu.Unlock()
		}
		if r.Revision = 2; !node.Decide(w.Context(), []shard.Request{r})[0].Decision.Allowed {
			t.Error("made by those of now it is not allowed")
		}
	})
}
