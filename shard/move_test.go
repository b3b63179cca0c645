package shard

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// mover moves a slot between two shards of a fleet, as its driver does.
type mover struct {
	*fleet
	Move
	frozen SlotStatus
	twice  func() bool // whether a step is asked again
}

func (f *fleet) mover(at slot.ID, to ID) *mover {
	m := &mover{fleet: f, Move: Move{Slot: at, From: ID(f.slots[at]), To: to}, twice: func() bool { return false }}
	m.Generation = 1 + m.status(origin, m.From).Generation
	return m
}

// ask asks a shard for a step.
func (m *mover) ask(now limit.Time, on ID, terms MoveTerms) (MoveAnswer, *Error) {
	m.Helper()
	terms.Move = m.Move
	terms.Frozen = m.frozen
	w := m.worlds[on]
	results, _ := w.batch(max(now, w.state.Time()), MoveRequest(on, terms))
	if results[0].Err != nil {
		return MoveAnswer{}, results[0].Err
	}
	return *results[0].Decision.Answer().Moved, nil
}

// step asks for a step that must be possible, and perhaps again, which must change nothing else.
func (m *mover) step(now limit.Time, step MoveStep) MoveAnswer {
	m.Helper()
	on := m.From
	if step == MoveBegin || step == MoveTake || step == MoveAbort {
		on = m.To
	}
	answer, err := m.ask(now, on, MoveTerms{Step: step})
	if err != nil {
		m.Fatalf("step %d: %v", step, err)
	}
	if m.twice() && answer.Status.State != SlotFrozen || step == MoveFreeze && m.twice() {
		again, err := m.ask(now, on, MoveTerms{Step: step})
		if err != nil || !reflect.DeepEqual(again.Status, answer.Status) && step != MoveAbort {
			m.Fatalf("step %d again: %+v, %v; before %+v", step, again, err, answer)
		}
	}
	return answer
}

func (m *mover) status(now limit.Time, on ID) SlotStatus {
	m.Helper()
	answer, err := m.ask(now, on, MoveTerms{Step: MoveLook})
	if err != nil {
		m.Fatal(err)
	}
	return answer.Status
}

// prepare makes both shards ready, up to MoveFreeze.
func (m *mover) prepare(now limit.Time) {
	m.Helper()
	m.step(now, MovePrepare)
	m.frozen = m.status(now, m.From)
	m.step(now, MoveBegin)
}

// freeze reports whether the slot is frozen, or waits.
func (m *mover) freeze(now limit.Time) bool {
	m.Helper()
	answer := m.step(now, MoveFreeze)
	m.frozen = answer.Status
	return answer.Waits == ""
}

// copy copies all pages.
func (m *mover) copy(now limit.Time) (pages int) {
	m.Helper()
	for place, last := uint64(0), false; !last; pages++ {
		read, err := m.ask(now, m.From, MoveTerms{Step: MoveRead, Place: place})
		if err != nil {
			m.Fatal(err)
		}
		for range 1 + bit(m.twice()) {
			put, err := m.ask(now, m.To, MoveTerms{Step: MovePut, Place: place, Page: uint64(pages), Put: read.Page})
			if err != nil || put.Waits != "" {
				m.Fatalf("page %d: %+v, %v", pages, put, err)
			}
		}
		place, last = read.Page.Next, read.Page.Last
	}
	return pages
}

// take ends the move for all that ask.
func (m *mover) take(now limit.Time) {
	m.Helper()
	m.step(now, MoveTake)
	slots := *m.slots
	slots[m.Slot] = uint32(m.To)
	m.fleet.slots, m.fleet.moved = &slots, true
}

// drop removes the records of the former owner.
func (m *mover) drop(now limit.Time) (pieces int) {
	m.Helper()
	for pieces = 1; m.step(now, MoveDrop).Status.State != SlotMoved; pieces++ {
	}
	return pieces
}

// move moves the slot.
func (m *mover) move(now limit.Time) {
	m.Helper()
	m.prepare(now)
	if !m.freeze(now) {
		m.Fatal("the slot waits")
	}
	m.copy(now)
	m.take(now)
	m.drop(now)
}

// abort gives the move up.
func (m *mover) abort(now limit.Time) {
	m.Helper()
	for !m.step(now, MoveAbort).Status.Ended {
	}
	m.step(now, MoveThaw)
}

// refuses fails unless a step is refused and changes nothing.
func (m *mover) refuses(now limit.Time, on ID, terms MoveTerms) {
	m.Helper()
	before := allRecords(m.worlds[on].state)
	if answer, err := m.ask(now, on, terms); err == nil || err.Code != Conflict {
		m.Errorf("step %d: %+v, %v", terms.Step, answer, err)
	}
	if after := allRecords(m.worlds[on].state); !reflect.DeepEqual(before, after) {
		m.Errorf("step %d was refused and changed records", terms.Step)
	}
}

// twoShards returns a fleet of two shards with a policy of 10 an hour, and a key on shard 0.
func twoShards(t testing.TB) (f *fleet, key string) {
	f = newFleet(t, 2, onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}))
	return f, keyIn(slot.Even(2), 0, slot.Even(2), 0)
}

func slotOf(key string) slot.ID { return slot.Of("default", key) }

// wantsMoved fails unless a shard sends a request to another.
func (f *fleet) wantsMoved(now limit.Time, on ID, r Request, to ID) {
	f.Helper()
	if err := f.worlds[on].refused(now, r); err.Code != Moved || err.To != to || err.Slot != r.Slot() {
		f.Errorf("shard %d: %+v", on, err)
	}
}

// TestASlotMovesWithAllItHas: the shard that gets it goes on counting where the other stopped, answers ids and settles
// holds. Either shard sends requests to the owner. The slot may come back.
func TestASlotMovesWithAllItHas(t *testing.T) {
	f, key := twoShards(t)
	named := checkOf("p", key, 2)
	named.ID = "once"
	hold := Request{Op: Reserve, Namespace: "default", Entries: []Entry{{Policy: "p", Key: key, Cost: 3}},
		Hold: &HoldTerms{TTL: minute}}
	first, held := f.must(origin+1, named), f.must(origin+2, hold)
	f.wantsMoved(origin+2, 1, named, 0)
	there := f.mover(slotOf(key), 1)
	there.twice = func() bool { return true }
	there.move(origin + 3)
	f.wantsMoved(origin+4, 0, named, 1)
	f.wantsMoved(origin+4, 0, checkOf("p", key, 1), 1)
	again := f.must(origin+4, named)
	if !again.Replayed || again.Position != first.Position {
		t.Errorf("%+v, before %+v", again, first)
	}
	f.must(origin+5, settleOf(hold, held, Settlement{Action: ActionCancel}))
	f.mover(slotOf(key), 0).move(origin + 6)
	if left := f.must(origin+7, checkOf("p", key, 1)).Limits[0].Remaining; left != 7 {
		t.Errorf("%d left", left)
	}
	f.wantsMoved(origin+8, 1, named, 0)
	for _, w := range f.worlds {
		audit(t, w.state)
	}
}

// TestACopyOfANumberAsksWhereItsIDWent: the number is counted here, and what was answered is there.
func TestACopyOfANumberAsksWhereItsIDWent(t *testing.T) {
	f, key := twoShards(t)
	r := checkOf("p", key, 2)
	opened := f.worlds[0].must(origin+1, Request{Op: OpenSession})
	r.ID, r.Session, r.Number = "once", opened.Answer().Session, 1
	first := f.must(origin+2, r)
	f.mover(slotOf(key), 1).move(origin + 3)
	r.Retry = true
	f.wantsMoved(origin+4, 0, r, 1)
	r.Session, r.Number = Session{}, 0
	if again := f.must(origin+5, r); !again.Replayed || again.Position != first.Position {
		t.Errorf("%+v, before %+v", again, first)
	}
}

// TestStepsOfAMove: each step needs the one before. Refused, it changes nothing.
func TestStepsOfAMove(t *testing.T) {
	f, key := twoShards(t)
	now := origin + 1
	f.must(now, checkOf("p", key, 1))
	m := f.mover(slotOf(key), 1)
	for _, step := range []MoveStep{MoveFreeze, MoveRead, MoveDrop, MoveThaw} {
		m.refuses(now, 0, MoveTerms{Step: step})
	}
	m.refuses(now, 1, MoveTerms{Step: MovePut})
	m.refuses(now, 1, MoveTerms{Step: MoveTake})
	old := *m
	old.Generation++
	old.refuses(now, 0, MoveTerms{Step: MovePrepare})
	m.step(now, MovePrepare)
	old.refuses(now, 0, MoveTerms{Step: MoveFreeze})
	m.refuses(now, 0, MoveTerms{Step: MoveRead})
	m.refuses(now, 0, MoveTerms{Step: MoveDrop})
	m.step(now, MoveBegin)
	m.refuses(now, 1, MoveTerms{Step: MoveTake})
	f.must(now, checkOf("p", key, 1)) // it is still answered
	m.freeze(now)
	m.refuses(now, 1, MoveTerms{Step: MoveTake})
	m.refuses(now, 1, MoveTerms{Step: MovePut, Page: 1, Put: MovePage{Last: true}})
	m.refuses(now, 1, MoveTerms{Step: MovePut, Place: 1, Put: MovePage{Last: true}})
	if err := f.worlds[1].refused(now, checkOf("p", key, 1)); err.Code != Unavailable ||
		err.RetryAfter != 10*millisecond {
		t.Errorf("%+v", err)
	}
	f.wantsMoved(now, 0, checkOf("p", key, 1), 1)
	m.copy(now)
	m.refuses(now, 1, MoveTerms{Step: MovePut, Page: 1, Put: MovePage{Last: true}})
	m.take(now)
	m.refuses(now, 1, MoveTerms{Step: MoveAbort})
	m.refuses(now, 1, MoveTerms{Step: MoveBegin})
	m.step(now, MoveDrop)
	m.refuses(now, 0, MoveTerms{Step: MoveRead})
	m.refuses(now, 0, MoveTerms{Step: MoveThaw})
	m.refuses(now, 0, MoveTerms{Step: MovePrepare})
	m.step(now, MoveDrop)
	for _, wrong := range []Move{{Slot: m.Slot, From: 0, To: 0, Generation: 1},
		{Slot: slot.Count - 1, From: 1, To: 2, Generation: 1}, {Slot: slot.Count, From: 0, To: 1, Generation: 1}} {
		x := *m
		x.Move = wrong
		if _, err := x.ask(now, 0, MoveTerms{Step: MoveLook}); err == nil || err.Code != Invalid {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestAFreezeIsTheLastOfItsBatch: requests after it in a batch are refused.
func TestAFreezeIsTheLastOfItsBatch(t *testing.T) {
	f, key := twoShards(t)
	m := f.mover(slotOf(key), 1)
	m.prepare(origin + 1)
	freeze := MoveRequest(0, MoveTerms{Move: m.Move, Step: MoveFreeze})
	w := f.worlds[0]
	results, _ := w.batch(origin+2, checkOf("p", key, 1), freeze, checkOf("p", key, 1))
	if len(results) != 1 {
		t.Fatalf("%d answers", len(results))
	}
	if results, _ = w.batch(origin+3, freeze, checkOf("p", key, 1)); len(results) != 1 {
		t.Fatalf("%d answers", len(results))
	}
	f.wantsMoved(origin+4, 0, checkOf("p", key, 1), 1)
}

// TestASlotWaitsForHoldsThatSpan: a hold on keys of several slots must end before one of them moves. From MovePrepare
// on, a new one must be an operation.
func TestASlotWaitsForHoldsThatSpan(t *testing.T) {
	f, key := twoShards(t)
	other := key
	for i := 0; slotOf(other) == slotOf(key) || f.slots[slotOf(other)] != 0; i++ {
		other = fmt.Sprint("other ", i)
	}
	spans := Request{Op: Reserve, Namespace: "default", Hold: &HoldTerms{TTL: minute},
		Entries: []Entry{{Policy: "p", Key: key, Cost: 1}, {Policy: "p", Key: other, Cost: 1}}}
	own := spans
	own.Entries = spans.Entries[:1]
	held := f.must(origin+1, spans)
	m := f.mover(slotOf(key), 1)
	m.prepare(origin + 2)
	if err := f.worlds[0].refused(origin+3, spans); err.Code != Spread {
		t.Errorf("%+v", err)
	}
	both := spans
	both.Op, both.Hold = Check, nil
	f.must(origin+3, both)
	f.must(origin+3, own)
	if answer := m.step(origin+4, MoveFreeze); !strings.Contains(answer.Waits, "1 open holds") ||
		answer.Status.State != SlotPreparing {
		t.Errorf("%+v", answer)
	}
	f.must(origin+5, settleOf(spans, held, Settlement{Action: ActionCommit}))
	if !m.freeze(origin + 6) {
		t.Error("still waits")
	}
	f.wantsMoved(origin+7, 0, own, 1)
}

// TestASpanningHoldThatExpiresIsWaitedForNoLonger also where no request has ended it.
func TestASpanningHoldThatExpiresIsWaitedForNoLonger(t *testing.T) {
	f, key := twoShards(t)
	other := key
	for i := 0; slotOf(other) == slotOf(key) || f.slots[slotOf(other)] != 0; i++ {
		other = fmt.Sprint("other ", i)
	}
	f.must(origin+1, Request{Op: Reserve, Namespace: "default", Hold: &HoldTerms{TTL: minute},
		Entries: []Entry{{Policy: "p", Key: key, Cost: 1}, {Policy: "p", Key: other, Cost: 1}}})
	m := f.mover(slotOf(key), 1)
	m.prepare(origin + 2)
	if m.freeze(origin + limit.Time(minute)) {
		t.Error("does not wait")
	}
	if !m.freeze(origin + 1 + limit.Time(minute)) {
		t.Error("waits")
	}
}

// TestAnAbortedMoveGoesBack: the shard that was to get the slot never takes it in this generation, whichever node asks,
// and loses its pages. The other goes on in a higher generation, and may move it again.
func TestAnAbortedMoveGoesBack(t *testing.T) {
	f, key := twoShards(t)
	now := origin + 1
	f.must(now, checkOf("p", key, 4))
	before := f.worlds[1].state.Records()
	m := f.mover(slotOf(key), 1)
	m.prepare(now)
	m.freeze(now)
	m.copy(now)
	m.abort(now)
	if got := f.worlds[1].state.Records(); got != before+1 { // the status
		t.Errorf("%d records, before %d", got, before)
	}
	for _, step := range []MoveStep{MoveTake, MovePut, MoveBegin} {
		m.refuses(now, 1, MoveTerms{Step: step})
	}
	m.refuses(now, 0, MoveTerms{Step: MoveFreeze})
	f.wantsMoved(now, 1, checkOf("p", key, 1), 0)
	if left := f.must(now, checkOf("p", key, 1)).Limits[0].Remaining; left != 5 {
		t.Errorf("%d left", left)
	}
	if s := m.status(now, 0); s.State != SlotOwned || s.Generation != 2 {
		t.Errorf("%+v", s)
	}
	early := f.mover(slotOf(key), 1) // gives up before To has heard of it
	early.step(now, MovePrepare)
	early.abort(now)
	early.refuses(now, 1, MoveTerms{Step: MoveBegin})
	f.mover(slotOf(key), 1).move(now)
	if left := f.must(now, checkOf("p", key, 1)).Limits[0].Remaining; left != 4 {
		t.Errorf("%d left", left)
	}
}

// TestASlotOfManyPages: a page has about 128 KiB, and drops and aborts need several entries. An abort ends the move
// with its first. Two drivers with other pages do not make a gap.
func TestASlotOfManyPages(t *testing.T) {
	f, _ := twoShards(t)
	now, tag := origin+1, "{"+keyIn(slot.Even(2), 0, slot.Even(2), 0)+"}"
	keys := 3 * removedMost
	for i := range keys {
		f.must(now, checkOf("p", fmt.Sprint(tag, strings.Repeat("x", i%100), i), 1))
	}
	m := f.mover(slotOf(tag), 1)
	m.prepare(now)
	m.freeze(now)
	if pages := m.copy(now); pages < 3 {
		t.Errorf("%d pages", pages)
	}
	if m.step(now, MoveAbort).Status.Ended {
		t.Error("one entry has removed all")
	}
	m.refuses(now, 1, MoveTerms{Step: MoveTake})
	again := *m
	again.Generation += 2
	again.refuses(now, 1, MoveTerms{Step: MoveBegin})
	m.abort(now)

	m = f.mover(slotOf(tag), 1)
	m.prepare(now)
	m.freeze(now)
	m.copy(now)
	m.take(now)
	m.step(now, MoveDrop)
	m.refuses(now, 0, MoveTerms{Step: MoveThaw})
	m.refuses(now, 0, MoveTerms{Step: MoveRead})
	if pieces := m.drop(now); pieces < 2 {
		t.Errorf("%d pieces", pieces)
	}
	if left := f.worlds[0].state.Records(); left != 1 {
		t.Errorf("%d records are left", left)
	}
	for i := range keys {
		if d := f.must(now, checkOf("p", fmt.Sprint(tag, strings.Repeat("x", i%100), i), 1)); d.Limits[0].Used != 2 {
			t.Fatalf("%+v", d.Limits[0])
		}
	}
}
