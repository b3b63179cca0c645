package shard

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// crossing is one operation on two shards as its coordinator sees it. This shard plays both: it is addressed as home,
// or as a leg.
type crossing struct {
	*world
	about Operation
	hold  *HoldTerms
}

const operationTTL = 5 * second

// mine is the slot of the key "k": the home of the operation, or its leg.
var mine = slot.Of("default", "k")

func newCrossing(t testing.TB, limits ...limit.Limit) *crossing {
	if limits == nil {
		limits = []limit.Limit{{Algorithm: limit.Lifetime, Quota: 10}}
	}
	return &crossing{world: newWorld(t, onePolicy(limits...)),
		about: Operation{ID: "x", Op: Check, Home: 1, Leg: mine, Fingerprint: 7, TTL: operationTTL}}
}

// tell sends the shard one message of the operation.
func (c *crossing) tell(now limit.Time, op Op, change func(*Request)) Result {
	c.Helper()
	o := c.about
	if op != Charge && op != FinishLeg {
		o.Home = mine
	}
	r := Request{Op: op, Namespace: "default", Operation: &o}
	if op == Charge || op == Conclude {
		r.Entries, r.Hold = []Entry{{Policy: "p", Key: "k", Cost: 3}}, c.hold
	}
	if change != nil {
		change(&r)
	}
	results, _ := c.batch(now, r)
	return results[0]
}

func (c *crossing) charge(now limit.Time) Result { return c.tell(now, Charge, nil) }

// finish tells the leg home's ruling on the charge with this answer.
func (c *crossing) finish(now limit.Time, state OperationState, charged *Decision) Result {
	return c.tell(now, FinishLeg, func(r *Request) {
		r.Operation.Verdict = Verdict{ID: "x", Home: 1, Known: true, State: state}
		r.Operation.Legs = []Leg{{Slot: mine, Allowed: true, Decision: charged.bare()}}
	})
}

// used returns what the key has used.
func (c *crossing) used(now limit.Time) uint64 {
	results, _ := c.batch(now, Request{Op: Get, Namespace: "default",
		Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}})
	return results[0].Decision.Limits[0].Used
}

func (c *crossing) want(now limit.Time, used uint64, what string) {
	c.Helper()
	if got := c.used(now); got != used {
		c.Errorf("%s: %d used, want %d", what, got, used)
	}
}

func TestALegEndsByHomesWordOnly(t *testing.T) {
	for _, story := range []struct {
		state OperationState
		used  uint64
		open  int
	}{{OperationAborted, 0, 0}, {OperationCommitted, 3, 0}, {OperationHeld, 3, 1}} {
		c := newCrossing(t)
		charged := c.charge(origin + 1).Decision
		c.want(origin+limit.Time(hour), 3, "a leg that nobody told anything")
		if c.state.OpenLegs() != 1 {
			t.Fatalf("%d open legs, want 1", c.state.OpenLegs())
		}
		for range 3 { // repeated, with no further effect
			if result := c.finish(origin+limit.Time(hour), story.state, &charged); result.Err != nil {
				t.Fatal(result.Err)
			}
		}
		c.want(origin+limit.Time(hour), story.used, "a leg that was told")
		if c.state.OpenLegs() != story.open {
			t.Errorf("verdict %d: %d open legs, want %d", story.state, c.state.OpenLegs(), story.open)
		}
	}
}

// An entry that only looks takes nothing on a leg, and a refund that comes before the leg has heard of the decision
// gives back what the others took.
func TestALookOnALegIsNeitherHeldNorSettled(t *testing.T) {
	for state, used := range map[OperationState]uint64{OperationAborted: 0, OperationCommitted: 3,
		OperationSettled: 0} {
		c := newCrossing(t)
		charged := c.tell(origin+1, Charge, func(r *Request) {
			r.Entries = append(r.Entries, Entry{Policy: "look", Key: "k",
				Limits: []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}})
		}).Decision
		if records := c.state.Records(); !charged.Allowed || records != 2 {
			t.Errorf("%d records, want the leg and the counter that took units: %+v", records, charged)
		}
		result := c.tell(origin+2, FinishLeg, func(r *Request) {
			r.Operation.Verdict = Verdict{ID: "x", Home: 1, Known: true, State: state,
				Settled: &Settlement{Action: ActionCancel}}
			r.Operation.Legs = []Leg{{Slot: mine, Allowed: true, Decision: charged.bare()}}
		})
		if result.Err != nil {
			t.Errorf("verdict %d: %v", state, result.Err)
		}
		c.want(origin+3, used, "a leg with a look")
	}
}

func TestAChargeIsNeverMadeAgain(t *testing.T) {
	c := newCrossing(t)
	first := c.charge(origin + 1)
	again := c.charge(origin + 2)
	if again.Err != nil || !again.Decision.Allowed || !again.Decision.Replayed ||
		placeOf(&again.Decision) != placeOf(&first.Decision) {
		t.Errorf("the same charge again is answered %+v", again)
	}
	c.want(origin+3, 3, "charged twice")
	other := c.tell(origin+4, Charge, func(r *Request) { r.Operation.Fingerprint++ })
	if other.Err == nil || other.Err.Code != IDReused {
		t.Errorf("another request under the id is answered %+v", other)
	}
	c.finish(origin+5, OperationAborted, &first.Decision)
	if late := c.charge(origin + 6); late.Err == nil || late.Err.Code != TooLate {
		t.Errorf("a charge that comes after the release is answered %+v", late)
	}
	c.want(origin+7, 0, "charged after the release")
}

func TestAReleaseThatFindsNothingLeavesATombstone(t *testing.T) {
	c := newCrossing(t)
	c.finish(origin+1, OperationAborted, &Decision{})
	if late := c.charge(origin + 2); late.Err == nil || late.Err.Code != TooLate {
		t.Errorf("a charge that comes after the release is answered %+v", late)
	}
	// When that is forgotten, a charge is open again, asks home, and is aborted there.
	later := origin + limit.Time(day)
	charged := c.charge(later).Decision
	duties := c.state.Duties(later+limit.Time(operationTTL), 10)
	if len(duties) != 1 || duties[0].To != 1 || duties[0].Request.Op != ResolveHome {
		t.Fatalf("the leg asks %+v", duties)
	}
	home := newCrossing(t)
	results, _ := home.batch(later+limit.Time(operationTTL), duties[0].Request)
	if v := results[0].Decision.Operation; v == nil || v.State != OperationAborted {
		t.Fatalf("home says %+v", results[0])
	}
	c.finish(later+limit.Time(operationTTL), OperationAborted, &charged)
	c.want(later+limit.Time(operationTTL), 0, "the late charge")
}

// A message that was delayed for longer than anything is remembered must not affect any charge but its own.
func TestAVerdictIsAboutOneCharge(t *testing.T) {
	c := newCrossing(t)
	old := c.charge(origin + 1).Decision
	c.finish(origin+2, OperationAborted, &old)
	later := origin + limit.Time(day)
	c.charge(later)
	for _, state := range []OperationState{OperationAborted, OperationCommitted, OperationHeld, OperationSettled} {
		c.finish(later+1, state, &old)
	}
	c.want(later+2, 3, "a verdict on an earlier charge")
	if c.state.OpenLegs() != 1 {
		t.Error("a verdict on an earlier charge has ended this one")
	}
	if duties := c.state.Duties(later+limit.Time(operationTTL), 10); len(duties) != 1 {
		t.Errorf("the leg owes %+v", duties)
	}
}

func (c *crossing) conclude(now limit.Time, allowed bool, notAfter limit.Time) Result {
	return c.tell(now, Conclude, func(r *Request) {
		r.Operation.Home, r.NotAfter = mine, notAfter
		r.Operation.Legs = []Leg{{Slot: 4, Allowed: allowed, Decision: Decision{Allowed: allowed, DecidedAt: now,
			Position: Position{4, 1, 9}, Index: 1}}}
	})
}

func TestHomeDecidesOnce(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		c := newCrossing(t)
		first := c.conclude(origin+1, allowed, 0).Decision
		for _, second := range []bool{true, false} {
			again := c.conclude(origin+2, second, 0).Decision
			if again.Allowed != allowed || !again.Replayed || again.DecidedAt != first.DecidedAt ||
				again.Operation.State != first.Operation.State {
				t.Errorf("concluded again with %v: %+v, was %+v", second, again, first)
			}
		}
		c.want(origin+3, map[bool]uint64{true: 3}[allowed], "concluded three times")
		asked := c.tell(origin+4, AskHome, func(r *Request) { r.Operation.Home = mine }).Decision
		if asked.Allowed != allowed || !asked.Operation.Known || len(asked.Operation.Legs) != 1 {
			t.Errorf("asked, home says %+v", asked)
		}
		other := c.tell(origin+5, AskHome, func(r *Request) { r.Operation.Fingerprint++ })
		if other.Err == nil || other.Err.Code != IDReused {
			t.Errorf("another request under the id is answered %+v", other)
		}
	}
}

func TestWhatHomeDoesNotKnowIsAbortedFromThenOn(t *testing.T) {
	c := newCrossing(t)
	resolve := func(now limit.Time) Result {
		return c.tell(now, ResolveHome, func(r *Request) {
			r.Operation.Leg = 4
			r.Operation.Legs = []Leg{{Slot: 4,
				Decision: Decision{DecidedAt: origin + limit.Time(hour), Position: Position{4, 1, 9}, Index: 1}}}
		})
	}
	if v := resolve(origin + 1).Decision.Operation; v.State != OperationAborted {
		t.Fatalf("home says %+v", v)
	}
	// The leg's clock is an hour ahead of home's: a Conclude of its charge is accepted until an hour from now, and must
	// find the ruling.
	for _, at := range []limit.Span{second, hour, hour + 61*second} {
		notAfter := origin + limit.Time(hour+ConcludeWithin)
		late := c.conclude(origin+limit.Time(at), true, notAfter)
		if late.Err == nil && late.Decision.Allowed {
			t.Errorf("concluded %v after it was aborted: %+v", at, late)
		}
	}
	c.want(origin+limit.Time(2*hour), 0, "aborted")
	if result := c.conclude(origin+limit.Time(2*hour)+1, true, origin); result.Err == nil ||
		result.Err.Code != TooLate {
		t.Errorf("a Conclude after its time is answered %+v", result)
	}
}

// A late copy may charge a shard again that has forgotten the first charge. Home's ruling does not cover that second
// charge, which must be given back whatever became of the first.
func TestHomeConfirmsOnlyWhatItHasRuled(t *testing.T) {
	c := newCrossing(t)
	first := c.conclude(origin+1, true, 0).Decision.Operation.Legs[0]
	second := first
	second.Decision.Position.Seq++
	for i, want := range []OperationState{OperationCommitted, OperationAborted} {
		v := c.tell(origin+2, ResolveHome, func(r *Request) {
			r.Operation.Leg, r.Operation.Legs = 4, []Leg{[]Leg{first, second}[i]}
		}).Decision.Operation
		if v == nil || !v.Known || v.State != want {
			t.Errorf("charge %d: home says %+v, want state %d", i+1, v, want)
		}
	}
}

func TestACommittedOutcomeIsKeptUntilEveryLegKnows(t *testing.T) {
	c := newCrossing(t)
	c.conclude(origin+1, true, 0)
	later := origin + limit.Time(30*day)
	duties := c.state.Duties(later, 10)
	if len(duties) != 1 || duties[0].To != 4 || duties[0].Request.Op != FinishLeg ||
		duties[0].Request.Operation.Verdict.State != OperationCommitted {
		t.Fatalf("home owes %+v", duties)
	}
	acknowledge := func(state OperationState) {
		c.tell(later, Acknowledge, func(r *Request) { r.Operation.Leg, r.Operation.Verdict.State = 4, state })
	}
	acknowledge(OperationHeld) // of a ruling that was never made
	if len(c.state.Duties(limit.Forever, 10)) != 1 {
		t.Error("an acknowledgement of another ruling was taken for one of this")
	}
	acknowledge(OperationCommitted)
	if duties := c.state.Duties(limit.Forever, 10); len(duties) != 0 {
		t.Errorf("home still owes %+v", duties)
	}
	known := func(now limit.Time) bool {
		return c.tell(now, AskHome, func(r *Request) { r.Operation.Home = mine }).Decision.Operation.Known
	}
	if retention := limit.Time(policy.DefaultRetention); !known(later+retention-1) || known(later+retention) {
		t.Error("the outcome is not remembered for the retention")
	}
}

func TestAHoldEndsByHomesTime(t *testing.T) {
	c := newCrossing(t)
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: minute}
	if d := c.conclude(origin+1, true, 0).Decision; d.Operation.State != OperationHeld ||
		d.HoldExpires != origin+1+limit.Time(minute) {
		t.Fatalf("reserved: %+v", d)
	}
	resolve := func(now limit.Time) *Verdict {
		return c.tell(now, ResolveHome, func(r *Request) { r.Operation.Leg = mine }).Decision.Operation
	}
	if v := resolve(origin + limit.Time(minute)); v.State != OperationHeld || v.Expires != 1 {
		t.Errorf("before its time: %+v", v)
	}
	settle := func(now limit.Time, action Action) Result {
		return c.tell(now, Settle, func(r *Request) {
			r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 3}, {Policy: "p", Key: "elsewhere", Cost: 1}}
			r.Settlement = &Settlement{Action: action, TTL: minute,
				Target: Target{Hold: true, Operation: "x", Home: mine}}
			if action == ActionCommit {
				r.Settlement.TTL, r.Settlement.Actual = 0, []uint64{1, 2}
			}
			r.Operation.Home = mine
			r.Operation.Legs = []Leg{{Slot: 4,
				Decision: Decision{Limits: []LimitStatus{{Policy: "p", Key: "elsewhere"}}}}}
		})
	}
	if result := settle(origin+limit.Time(minute), ActionExtend); result.Err != nil ||
		result.Decision.HoldExpires != origin+limit.Time(2*minute) {
		t.Errorf("extended: %+v", result)
	}
	settled := settle(origin+limit.Time(2*minute)-1, ActionCommit)
	if settled.Err != nil || settled.Decision.Operation.State != OperationSettled {
		t.Fatalf("committed: %+v", settled)
	}
	c.want(origin+limit.Time(2*minute)-1, 1, "committed with 1 of 3")
	if again := settle(origin+limit.Time(3*minute), ActionCommit); again.Err != nil || !again.Decision.Replayed {
		t.Errorf("the same settlement again: %+v", again)
	}
	if other := settle(origin+limit.Time(3*minute), ActionCancel); other.Err == nil || other.Err.Code != HoldEnded {
		t.Errorf("another settlement: %+v", other)
	}
	duties := c.state.Duties(limit.Forever, 10)
	if len(duties) != 1 || duties[0].To != 4 || !reflect.DeepEqual(duties[0].Request.Operation.Verdict.Settled,
		&Settlement{Action: ActionCommit, Actual: []uint64{2}}) {
		t.Errorf("home owes %+v", duties)
	}
}

// A late copy of an extension answers what the first one was answered, and moves nothing, as on one shard.
func TestAnExtensionOfAnOperationCountsOnceForItsID(t *testing.T) {
	c := newCrossing(t)
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: minute}
	if d := c.conclude(origin+1, true, 0).Decision; d.Operation.State != OperationHeld {
		t.Fatalf("reserved: %+v", d)
	}
	extend := func(now limit.Time, id string, ttl limit.Span) Result {
		return c.tell(now, Settle, func(r *Request) {
			r.ID, r.Entries = id, []Entry{{Policy: "p", Key: "k", Cost: 3}, {Policy: "p", Key: "elsewhere", Cost: 1}}
			r.Settlement = &Settlement{Action: ActionExtend, TTL: ttl,
				Target: Target{Hold: true, Operation: "x", Home: mine}}
			r.Operation.Home = mine
			r.Operation.Legs = []Leg{{Slot: 4,
				Decision: Decision{Limits: []LimitStatus{{Policy: "p", Key: "elsewhere"}}}}}
		})
	}
	first := extend(origin+2, "first", minute)
	extend(origin+3, "second", hour)
	late := extend(origin+4, "first", minute)
	if late.Err != nil || !late.Decision.Replayed || late.Decision.HoldExpires != first.Decision.HoldExpires ||
		late.Decision.Operation == nil || late.Decision.Operation.State != OperationHeld {
		t.Errorf("the late copy is answered %+v, %+v", late.Decision, late.Err)
	}
	expires := func() limit.Span {
		return c.tell(origin+5, ResolveHome, func(r *Request) { r.Operation.Leg = mine }).Decision.Operation.Expires
	}
	if got := expires(); got != hour-2 {
		t.Errorf("after the late copy the hold lives for %d, want %d", got, hour-2)
	}
	if other := extend(origin+6, "second", minute); other.Err == nil || other.Err.Code != IDReused {
		t.Errorf("another extension under a used id: %+v", other)
	}
	if own := extend(origin+6, "x", minute); own.Err == nil || own.Err.Code != IDReused {
		t.Errorf("an extension under the id of its hold: %+v", own)
	}
	old := "00000000-0000-7000-8000-000000000000"
	if result := extend(origin+7, old, minute); result.Err == nil || result.Err.Code != IDExpired {
		t.Errorf("an id that is too old: %+v", result)
	}
}

// An extension without an id is told from its copies by its number in a session, as on one shard: its answer is
// remembered until the node that sent it has finished, and no longer.
func TestAnExtensionOfAnOperationCountsOnceForItsNumber(t *testing.T) {
	c := newCrossing(t)
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: minute}
	if d := c.conclude(origin+1, true, 0).Decision; d.Operation.State != OperationHeld {
		t.Fatalf("reserved: %+v", d)
	}
	opened := c.must(origin+2, Request{Op: OpenSession})
	before := len(allRecords(c.state))
	extend := func(now limit.Time, number, acked uint64, ttl limit.Span, retry bool) Result {
		return c.tell(now, Settle, func(r *Request) {
			r.Session, r.Number, r.Acked, r.Retry = opened.Answer().Session, number, acked, retry
			r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 3}, {Policy: "p", Key: "elsewhere", Cost: 1}}
			r.Settlement = &Settlement{Action: ActionExtend, TTL: ttl,
				Target: Target{Hold: true, Operation: "x", Home: mine}}
			r.Operation.Home = mine
			r.Operation.Legs = []Leg{{Slot: 4,
				Decision: Decision{Limits: []LimitStatus{{Policy: "p", Key: "elsewhere"}}}}}
		})
	}
	first := extend(origin+3, 1, 0, minute, false)
	second := extend(origin+4, 2, 0, hour, false)
	late := extend(origin+5, 1, 0, minute, true)
	if late.Err != nil || !late.Decision.Replayed || late.Decision.HoldExpires != first.Decision.HoldExpires ||
		late.Decision.Operation == nil || late.Decision.Operation.State != OperationHeld {
		t.Errorf("the late copy is answered %+v, %+v", late.Decision, late.Err)
	}
	expires := func(now limit.Time) limit.Time {
		d := c.tell(now, ResolveHome, func(r *Request) { r.Operation.Leg = mine }).Decision
		return now + limit.Time(d.Operation.Expires)
	}
	if got := expires(origin + 6); got != second.Decision.HoldExpires {
		t.Errorf("after the late copy the hold ends at %d, want %d", got, second.Decision.HoldExpires)
	}
	third := extend(origin+7, 3, 2, hour, false)
	if kept := len(allRecords(c.state)) - before; kept != 1 {
		t.Errorf("%d answers are kept, want that of the number which is not finished", kept)
	}
	if again := extend(origin+8, 2, 1, minute, true); again.Err == nil || again.Err.Code != TooLate {
		t.Errorf("a copy of a finished number: %+v", again)
	}
	if got := expires(origin + 9); got != third.Decision.HoldExpires {
		t.Errorf("in the end the hold ends at %d, want %d", got, third.Decision.HoldExpires)
	}
}

// A policy gets a parent, and loses it: the request is decided as an operation, its copy is of one shard, and the copy
// of that copy gets home's ruling too, although the session knows only that the number was counted.
func TestCopiesOfAnOperationAreAnsweredByItsRuling(t *testing.T) {
	c := newCrossing(t)
	alone := Request{Op: Check, Namespace: "default", ID: "x", Entries: []Entry{{Policy: "p", Key: "k", Cost: 3}}}
	c.about.Fingerprint = Fingerprint(&alone)
	first := c.conclude(origin+1, true, 0).Decision
	opened := c.must(origin+2, Request{Op: OpenSession})
	alone.Session, alone.Number = opened.Answer().Session, 1
	for now := origin + 3; now < origin+6; now++ {
		d := c.must(now, alone)
		if !d.Replayed || d.Position != first.Position || d.DecidedAt != first.DecidedAt {
			t.Errorf("a copy is answered %+v, the first was %+v", d, first)
		}
		alone.Retry = true
	}
	c.want(origin+7, 3, "asked four times")
}

func TestAHoldThatNobodySettlesExpiresEverywhere(t *testing.T) {
	for _, onExpire := range []policy.OnExpire{policy.OnExpireCancel, policy.OnExpireCommit} {
		home, there := newCrossing(t), newCrossing(t)
		for _, c := range []*crossing{home, there} {
			c.about.Op, c.hold = Reserve, &HoldTerms{TTL: minute, OnExpire: onExpire}
		}
		charged := there.charge(origin + 1).Decision
		home.conclude(origin+2, true, 0)
		there.finish(origin+3, OperationHeld, &charged)
		over := origin + limit.Time(2*minute)
		there.want(over, 3, "a hold in a leg before home says that it is over")
		settle := func(now limit.Time) Result {
			return home.tell(now, Settle, func(r *Request) {
				r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 3}}
				r.Settlement = &Settlement{Action: ActionCommit, Target: Target{Hold: true, Operation: "x", Home: mine}}
			})
		}
		if late := settle(over); late.Err == nil || late.Err.Code != HoldEnded {
			t.Errorf("settled after its time: %+v", late)
		}
		duties := home.state.Duties(over, 10)
		if len(duties) != 1 || duties[0].Request.Operation.Verdict.State != OperationSettled {
			t.Fatalf("home owes %+v", duties)
		}
		there.finish(over+1, OperationSettled, &charged)
		want := map[policy.OnExpire]uint64{policy.OnExpireCommit: 3}[onExpire]
		home.want(over+2, want, "home")
		there.want(over+2, want, "the leg")
	}
}

// A restored snapshot has the same duties and the same fingerprint.
func TestWhatIsOwedIsFoundInASnapshot(t *testing.T) {
	c := newCrossing(t)
	c.charge(origin + 1)
	c.about.ID = "y"
	c.conclude(origin+2, true, 0)
	var file bytes.Buffer
	if _, err := c.state.Snapshot().WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(3, &file)
	if err != nil {
		t.Fatal(err)
	}
	want, got := c.state.Duties(limit.Forever, 10), restored.Duties(limit.Forever, 10)
	if len(want) != 2 || !reflect.DeepEqual(got, want) || restored.OpenLegs() != 1 {
		t.Errorf("restored, the shard owes %+v, before %+v", got, want)
	}
}

func TestOperationRecordsComeBack(t *testing.T) {
	answer := Decision{Allowed: true, ShadowDenied: true, RetryAfter: 5, DecidedAt: origin,
		Position: Position{3, 300, 70_000},
		Index:    4, HoldExpires: origin + 9,
		Limits: []LimitStatus{{Policy: "p", Key: "k", Limit: "a", Quota: 10, Held: 1, Granted: 2,
			Verdict: limit.Verdict{Allowed: true, Used: 3, Remaining: 7}}, {Policy: "q", Key: "k", Limit: "a"}}}
	entries := []Entry{{Policy: "p", Key: "k", Cost: 3, Tier: "t"}, {Policy: "label", Key: "k", Cost: 1,
		Limits: []policy.Limit{{Name: "inline"}}}}
	l := &leg{due: origin, state: legHeld, drawn: true, home: 7, fingerprint: 1 << 63, keep: minute, answer: answer,
		entries: entries}
	if got, err := decodeLeg(l.encode()); err != nil || !reflect.DeepEqual(got, l) {
		t.Errorf("a leg came back as %+v, %v; written was %+v", got, err, l)
	}
	u := &ruling{due: origin, state: OperationSettled, drawn: true, fingerprint: 1 << 63, keep: minute,
		until: origin + 1, answer: answer, entries: entries, expires: origin + 2,
		legs:    []ruled{{Leg: Leg{4, true, answer}, pending: true, actual: []uint64{0, 1 << 40}}},
		settled: &settled{9, Settlement{Action: ActionCommit, Overage: OverageDebt}, answer}}
	if got, err := decodeRuling(u.encode()); err != nil || !reflect.DeepEqual(got, u) {
		t.Errorf("a ruling came back as %+v, %v; written was %+v", got, err, u)
	}
	if dueOf(l.encode()) != origin || dueOf(u.encode()) != origin || dueOf(nil) != 0 {
		t.Error("the index reads another instant than the record has")
	}
}

func FuzzOperationRecords(f *testing.F) {
	c := newCrossing(f)
	c.charge(origin + 1)
	c.about.ID = "y"
	c.conclude(origin+2, true, 0)
	for key, r := range allRecords(c.state) {
		if key[0] == legRecord || key[0] == rulingRecord {
			f.Add(r.Value)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if l, err := decodeLeg(value); err == nil {
			if again, err := decodeLeg(l.encode()); err != nil || !reflect.DeepEqual(again, l) {
				t.Errorf("%+v came back as %+v, %v", l, again, err)
			}
		}
		if u, err := decodeRuling(value); err == nil {
			if again, err := decodeRuling(u.encode()); err != nil || !reflect.DeepEqual(again, u) {
				t.Errorf("%+v came back as %+v, %v", u, again, err)
			}
		}
	})
}

// These bytes are stored in users' logs and snapshots: a change needs a new format number, and a reader for the old
// one.
func TestOperationGoldenBytes(t *testing.T) {
	c := newCrossing(t)
	charged := c.charge(origin + 1).Decision
	c.finish(origin+2, OperationHeld, &charged)
	c.about.ID = "y"
	c.conclude(origin+3, true, origin+4)
	text := ""
	for _, kind := range []byte{legRecord, rulingRecord} {
		for key, r := range allRecords(c.state) {
			if key[0] == kind {
				text += fmt.Sprintf("%x\n  %x\n", key, r.Value)
			}
		}
	}
	golden(t, "testdata/operation.golden", text)
}

// A denial of an operation may be decided more than once, so it is not counted. A policy that counts denials, perhaps
// for a ladder, is refused rather than silently ignored.
func TestAPolicyThatCountsDenialsIsRefusedOnSeveralShards(t *testing.T) {
	c := newCrossing(t)
	p := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10})
	p.CountDenied = true
	c.policies = policy.NewSet([]*policy.Policy{p})
	for _, op := range []Op{Check, Partial, Reserve} {
		c.about.ID, c.about.Op, c.hold = fmt.Sprint("x", op), op, &HoldTerms{TTL: second}
		for _, message := range []Op{Charge, Conclude} {
			r := c.tell(origin+1, message, func(r *Request) {
				if message == Conclude {
					r.Operation.Home = mine
				}
			})
			if r.Err == nil || r.Err.Code != Invalid || r.Err.Field != "entries[0].policy" ||
				!strings.Contains(r.Err.Message, "count_denied") {
				t.Errorf("operation %d, message %d: %+v", op, message, r)
			}
		}
	}
	c.want(origin+2, 0, "what was refused")
	c.about.ID, c.about.Op, c.hold = "count", Count, nil
	if r := c.charge(origin + 3); r.Err != nil || !r.Decision.Allowed {
		t.Errorf("what counts whatever the limits say is never denied: %+v", r)
	}
}

// A leg that denies a request with other numbers keeps them, as any shard does, and the wait is by them.
func TestALegsDenialWaitsByTheNumbersOfTheRequest(t *testing.T) {
	c := newCrossing(t)
	p := onePolicy(limit.Limit{Algorithm: limit.TokenBucket, Quota: 10, Initial: 10, Count: 1, Period: second})
	fast := uint64(10)
	p.Tiers = map[string]policy.Tier{"fast": {Limits: map[string]policy.TierLimit{"a": {Refill: &fast}}}}
	c.policies = policy.NewSet([]*policy.Policy{p})
	c.must(origin, checkOf("p", "k", 10))
	for i, op := range []Op{Charge, Conclude, Charge} {
		d := c.tell(origin+limit.Time(1+i), op, func(r *Request) {
			r.Entries = []Entry{{Policy: "p", Key: "k", Cost: 5, Tier: "fast"}}
		}).Decision
		if want := 500*millisecond - limit.Span(i); d.Allowed || d.RetryAfter != want ||
			d.Limits[0].RetryAfter != want {
			t.Errorf("op %d: retry after %d, the limit's %d, want %d", op, d.RetryAfter, d.Limits[0].RetryAfter, want)
		}
	}
}

// Home does not count its denial when a leg has denied either: a policy that counts denials is refused then too.
func TestADenialByALegIsRefusedWhereHomeCountsDenials(t *testing.T) {
	for _, op := range []Op{Check, Partial, Reserve} {
		c := newCrossing(t)
		p := onePolicy(lifetimeOf(10))
		p.CountDenied = true
		c.policies, c.about.Op = policy.NewSet([]*policy.Policy{p}), op
		if op == Reserve {
			c.hold = &HoldTerms{TTL: minute}
		}
		result := c.tell(origin+1, Conclude, func(r *Request) { r.Operation.Legs = []Leg{{Slot: 4}} })
		if result.Err == nil || result.Err.Code != Invalid || result.Err.Field != "entries[0].policy" {
			t.Errorf("op %d: %+v", op, result)
		}
	}
}

// A message that gives units back names their keys.
func TestWhoTellsALegNamesItsKeys(t *testing.T) {
	c := newCrossing(t)
	c.about.Op, c.hold = Reserve, &HoldTerms{TTL: second}
	charged := c.charge(origin + 1).Decision
	duties := c.state.Duties(origin+limit.Time(operationTTL)+1, 10)
	want := []Entry{{Policy: "p", Key: "k", Cost: 1}}
	if len(duties) != 1 || duties[0].Request.Op != ResolveHome || !reflect.DeepEqual(duties[0].Keys, want) ||
		duties[0].Request.Entries != nil {
		t.Fatalf("the leg asks %+v", duties)
	}
	home := newCrossing(t)
	home.about, home.hold = c.about, c.hold
	home.tell(origin+2, Conclude, func(r *Request) {
		r.Entries = []Entry{{Policy: "p", Key: "home", Cost: 3}}
		r.Operation.Legs = []Leg{{Slot: 4, Allowed: true, Decision: charged}}
	})
	expired := home.state.Duties(origin+limit.Time(minute), 10)
	home.batch(origin+limit.Time(minute), expired[0].Request)
	told := home.state.Duties(origin+limit.Time(2*minute), 10)
	if len(told) != 1 || told[0].Request.Op != FinishLeg || !reflect.DeepEqual(told[0].Request.Entries, want) {
		t.Errorf("home tells %+v", told)
	}
}
