package shard

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
	"github.com/stint-io/stint/shard/table"
)

// What a move does to lists, bills, duties and what else belongs to a whole shard.

// frozenAt returns a move of a frozen slot, with its pages on the other shard.
func (f *fleet) frozenAt(now limit.Time, key string, to ID) *mover {
	f.Helper()
	m := f.mover(slotOf(key), to)
	m.prepare(now)
	if !m.freeze(now) {
		f.Fatal("the slot waits")
	}
	m.copy(now)
	return m
}

// shown counts the keys that all shards list, and the bills. A shard lists a key if it says that it has met its slot.
func (f *fleet) shown(now limit.Time, key string) (keys, bills int) {
	f.Helper()
	for _, w := range f.worlds {
		l := w.state.List(Listing{Namespace: "default", Count: 1000, Founded: slot.Even(2)})
		if keys += len(l.Keys); l.Slots.Has(slotOf(key)) != (len(l.Keys) > 0) {
			f.Errorf("shard %s lists %v, and has met the slot: %v", w.state.id, l.Keys, l.Slots.Has(slotOf(key)))
		}
		d := w.must(max(now, w.state.Time()), UsageRequest("default", w.state.id, UsageQuery{}))
		page, err := UsageOf("default", &d)
		if err != nil {
			f.Fatal(err)
		}
		bills += len(page.Periods)
	}
	return keys, bills
}

// TestASlotIsListedOnce: a key is listed, and its bill shown, by the shard that owns it; by none while it is frozen.
func TestASlotIsListedOnce(t *testing.T) {
	p := onePolicy(lifetimeOf(1000))
	p.Meter = randomMeter(seeded(t))
	f := newFleet(t, 2, p)
	key := keyIn(f.slots, 0, f.slots, 0)
	f.must(origin+1, checkOf("p", key, 1))
	wants := func(when string, n int) {
		t.Helper()
		if keys, bills := f.shown(origin+10, key); keys != n || bills != n {
			t.Errorf("%s: %d keys, %d bills", when, keys, bills)
		}
	}
	wants("before", 1)
	m := f.frozenAt(origin+2, key, 1)
	wants("frozen", 0)
	m.take(origin + 2)
	wants("taken", 1)
	m.drop(origin + 2)
	wants("dropped", 1)
	m = f.frozenAt(origin+3, key, 0)
	wants("frozen again", 0)
	m.step(origin+3, MoveAbort)
	m.step(origin+3, MoveThaw)
	wants("thawed", 1)
}

// TestAKeyIsForgottenAfterItsMove: not while it moves, since a copy would stay.
func TestAKeyIsForgottenAfterItsMove(t *testing.T) {
	f, key := twoShards(t)
	f.must(origin+1, checkOf("p", key, 1))
	forget := func(on ID) Forgot {
		t.Helper()
		w := f.worlds[on]
		d := w.must(max(origin+2, w.state.Time()),
			Request{Op: Forget, Shard: on, Namespace: "default", Adjustment: &Adjustment{Forget: key}})
		return d.Answer().Forgot
	}
	m := f.frozenAt(origin+2, key, 1)
	for on := range ID(2) {
		if got := forget(on); got.Open != 1 || got.Counters != 0 {
			t.Errorf("shard %d: %+v", on, got)
		}
	}
	m.take(origin + 3)
	if got := forget(1); got != (Forgot{Counters: 1}) {
		t.Errorf("%+v", got)
	}
	m.drop(origin + 3)
	if got := forget(0); got != (Forgot{}) {
		t.Errorf("%+v", got)
	}
}

// TestDutiesMoveWithTheirSlot: an operation's leg asks home from the shard that owns its slot, and from no other; and
// messages for it are answered there.
func TestDutiesMoveWithTheirSlot(t *testing.T) {
	f, key := twoShards(t)
	now, due := origin+1, origin+1+limit.Time(minute)
	home := slotOf(keyIn(f.slots, 1, f.slots, 1))
	charge := checkOf("p", key, 1)
	charge.Op = Charge
	charge.Operation = &Operation{ID: "o", Op: Check, Home: home, Leg: slotOf(key), TTL: second}
	w := f.worlds[0]
	charged := w.must(now, charge)
	wants := func(when string, first, second int) {
		t.Helper()
		if a, b := len(f.worlds[0].state.Duties(due, 10)), len(f.worlds[1].state.Duties(due, 10)); a != first ||
			b != second {
			t.Errorf("%s: %d and %d duties", when, a, b)
		}
	}
	wants("before", 1, 0)
	m := f.frozenAt(now, key, 1)
	wants("frozen", 0, 0)
	finish := Request{Op: FinishLeg, Namespace: "default", Operation: &Operation{ID: "o", Home: home, Leg: slotOf(key),
		Legs:    []Leg{{Slot: slotOf(key), Allowed: true, Decision: charged.bare()}},
		Verdict: Verdict{ID: "o", Home: home, Known: true, State: OperationAborted}}}
	for on, code := range []Code{Moved, Unavailable} {
		if err := f.worlds[on].refused(now, finish); err.Code != code {
			t.Errorf("shard %d: %+v", on, err)
		}
	}
	m.take(now)
	wants("taken", 0, 1)
	m.drop(now)
	wants("dropped", 0, 1)
	f.worlds[1].must(now, finish)
	wants("finished", 0, 0)
	if used := f.must(now, checkOf("p", key, 1)).Limits[0].Used; used != 1 {
		t.Errorf("%d used", used)
	}
}

// TestThePagesWaitForTimeAndPolicies: no window opens early, and no key is read under older policies. The shard's
// limits got their numbers when the other shard learned of them.
func TestThePagesWaitForTimeAndPolicies(t *testing.T) {
	f, key := twoShards(t)
	f.must(origin+10, checkOf("p", key, 1))
	m := f.mover(slotOf(key), 1)
	m.prepare(origin + 10)
	m.frozen = m.status(origin+10, 0)
	adopt := func(on ID, at limit.Time, version uint64) {
		w := f.worlds[on]
		stamp := w.next(at)
		w.append(EncodeBatch(stamp,
			Adopt(w, nil, policy.Revision{Version: version, Text: []byte("policies: {}"), Set: w.policies}, stamp)))
	}
	adopt(0, origin+20, 7)
	m.freeze(origin + 20)
	read, err := m.ask(origin+30, 0, MoveTerms{Step: MoveRead})
	if err != nil {
		t.Fatal(err)
	}
	w := f.worlds[1]
	put := func(at limit.Time) MoveAnswer {
		t.Helper()
		terms := MoveTerms{Move: m.Move, Step: MovePut, Frozen: m.frozen, Put: read.Page}
		d := w.must(at, MoveRequest(1, terms))
		return *d.Answer().Moved
	}
	if a := put(origin + 19); !strings.Contains(a.Waits, "time") || a.Status.Pages != 0 {
		t.Errorf("%+v", a)
	}
	if a := put(origin + 20); !strings.Contains(a.Waits, "version 7") || a.Status.Pages != 0 {
		t.Errorf("%+v", a)
	}
	adopt(1, origin+21, 7)
	if a := put(origin + 22); a.Waits != "" || a.Status.Pages != 1 || !a.Status.Ended {
		t.Errorf("%+v", a)
	}
	early := MoveRequest(1, MoveTerms{Move: m.Move, Step: MoveTake, Frozen: m.frozen})
	d := w.must(origin+29, early)
	if a := d.Answer().Moved; !strings.Contains(a.Waits, "time") || a.Status.State != SlotImporting {
		t.Errorf("%+v", a)
	}
	late := MoveRequest(1, MoveTerms{Move: m.Move, Step: MoveTake, Frozen: m.frozen})
	late.NotAfter = origin + 33
	if err := w.refused(origin+34, late); err.Code != TooLate {
		t.Errorf("%+v", err)
	}
	m.take(origin + 35)
}

// TestASlotMovesToAShardThatIsBehind: for as long as its time is behind when it stores a page, and no longer. A driver
// that is told to wait reads the page again, later.
func TestASlotMovesToAShardThatIsBehind(t *testing.T) {
	const behind = 300e3
	f, key := twoShards(t)
	f.must(origin+behind, checkOf("p", key, 1))
	m := f.mover(slotOf(key), 1)
	m.step(origin+behind, MovePrepare)
	m.frozen = m.status(origin+behind, 0)
	m.step(origin, MoveBegin)
	m.freeze(origin + behind)
	now, stored := origin, MoveAnswer{}
	for ; !stored.Status.Ended; now += 1000 {
		read, err := m.ask(now+behind, 0, MoveTerms{Step: MoveRead})
		if err == nil {
			stored, err = m.ask(now, 1, MoveTerms{Step: MovePut, Put: read.Page})
		}
		if err != nil || now > origin+2*behind {
			t.Fatalf("%v after the freeze it waits for %q: %v", now-origin, stored.Waits, err)
		}
	}
	m.take(now + behind)
}

// TestAMoveFromARestoredShard: a shard without slots gets the mark along; one with slots must have the same.
func TestAMoveFromARestoredShard(t *testing.T) {
	f, key := twoShards(t)
	f.must(origin+1, checkOf("p", key, 1))
	f, err := f.restored(2, Restoration{At: origin + limit.Time(minute)})
	if err != nil {
		t.Fatal(err)
	}
	now := f.worlds[0].state.Time()
	mark, _ := f.worlds[0].state.Lookup(string(restoreRecord))
	for id := range ID(2) { // an empty shard, and one that lacks the mark
		w := &world{TB: t, state: NewState(2 + id), policies: f.worlds[0].policies, term: 1, table: f.slots}
		if id == 1 {
			own := *f.slots
			own[0] = 3
			w.table = &own
		}
		w.append(EncodeEpochOpen(w.state.id, now, LevelNewest))
		f.worlds = append(f.worlds, w)
	}
	other := f.mover(slotOf(key), 3)
	other.frozen = other.status(now, 0)
	other.refuses(now, 3, MoveTerms{Step: MoveBegin})
	f.mover(slotOf(key), 2).move(now)
	if got, _ := f.worlds[2].state.Lookup(string(restoreRecord)); string(got.Value) != string(mark.Value) {
		t.Errorf("the mark is %x, not %x", got.Value, mark.Value)
	}
	if d := f.must(now, checkOf("p", key+"{of the slot}", 1)); d.Allowed && slotOf(key+"{of the slot}") == slotOf(key) {
		t.Errorf("%+v", d)
	}
	f.mover(slotOf(key), 1).move(now) // it has slots, and the same mark
}

// TestNoBillOfAMovedSlotIsPassed: the lesser position counts, under a new version. An empty shard goes on where the
// other was.
func TestNoBillOfAMovedSlotIsPassed(t *testing.T) {
	f, key := twoShards(t)
	push := func(on ID, done limit.Time, version uint64) {
		t.Helper()
		text, _ := PushPosition{Done: done}.Encode()
		w := f.worlds[on]
		w.must(w.state.Time(), PushRequest(on,
			&Push{Sink: "s", Period: "final", Position: text, Version: version, Until: origin + limit.Time(day)}))
	}
	wants := func(when string, on ID, done limit.Time, version uint64) {
		t.Helper()
		p, err := ReadPush(f.worlds[on].state, "s", "final")
		var at PushPosition
		if json.Unmarshal(p.Position, &at); err != nil || at.Done != done || p.Version != version {
			t.Errorf("%s: shard %d: %+v, version %d, %v", when, on, at, p.Version, err)
		}
	}
	push(0, 40, 0)
	push(1, 50, 0)
	m := f.mover(slotOf(key), 1)
	m.prepare(origin + 1) // both are known before the freeze
	for on, w := range f.worlds {
		p, err := FindPush(m.status(origin+1, ID(on)).Pushes, "s", "final")
		if want, _ := ReadPush(w.state, "s", "final"); err != nil || !reflect.DeepEqual(p, want) {
			t.Errorf("shard %d: %+v, %v", on, p, err)
		}
	}
	m.freeze(origin + 1)
	m.copy(origin + 1)
	push(0, 60, 1) // it no longer speaks of the slot
	m.take(origin + 1)
	wants("taken", 1, 40, 2)
	m.drop(origin + 1)
	wants("dropped", 0, 60, 2)

	m = f.frozenAt(origin+2, key, 0)
	push(1, 70, 2)
	m.abort(origin + 2)
	wants("thawed", 1, 40, 4)

	w := &world{TB: t, state: NewState(2), policies: f.worlds[0].policies, term: 1, table: slot.Even(2)}
	w.append(EncodeEpochOpen(2, origin, LevelNewest))
	f.worlds = append(f.worlds, w)
	f.mover(slotOf(key), 2).move(origin + 3)
	wants("an empty shard", 2, 40, 5)
}

// TestASlotThatComesIsNotPassed: a pusher read its page before the shard got a slot, or got it back.
func TestASlotThatComesIsNotPassed(t *testing.T) {
	f, key := twoShards(t)
	note := func(on ID, slots uint64) *Error {
		text, _ := PushPosition{Done: 50, Slots: slots}.Encode()
		r := PushRequest(on, &Push{Sink: "s", Period: "final", Position: text, Until: origin + limit.Time(day)})
		results, _ := f.worlds[on].batch(f.worlds[on].state.Time(), r)
		return results[0].Err
	}
	mustNotPass := func(on ID, before uint64) {
		t.Helper()
		if err := note(on, before); err == nil || err.Code != Conflict {
			t.Errorf("the slot is passed: %v", err)
		}
		if err := note(on, ServedSlots(f.worlds[on].state)); err != nil {
			t.Error(err)
		}
	}
	m := f.frozenAt(origin+1, key, 1)
	before := ServedSlots(f.worlds[0].state)
	m.abort(origin + 1)
	mustNotPass(0, before)

	m = f.frozenAt(origin+2, key, 1)
	before = ServedSlots(f.worlds[1].state)
	m.take(origin + 2)
	mustNotPass(1, before)
}

// TestARestoreTakesASlotFromItsOwner: the pictures of a backup may show a move at different steps.
func TestARestoreTakesASlotFromItsOwner(t *testing.T) {
	f, key := twoShards(t)
	now := origin + 1
	f.must(now, checkOf("p", key, 1))
	pictures := [][]*State{{}, {}}
	picture := func() {
		for id, w := range f.worlds {
			pictures[id] = append(pictures[id], w.backup())
		}
	}
	picture() // 0
	m := f.mover(slotOf(key), 1)
	m.prepare(now)
	f.must(now, checkOf("p", key, 1))
	picture() // 1
	m.freeze(now)
	m.copy(now)
	picture() // 2
	m.take(now)
	f.must(now, checkOf("p", key, 1))
	picture() // 3
	m.drop(now)
	picture() // 4
	f.mover(slotOf(key), 0).move(now)
	f.must(now, checkOf("p", key, 1))
	picture()                  // 5
	used := map[string]uint64{ // by the pictures of shards 0 and 1
		"00": 1, "01": 1, "02": 1, "03": 3, "04": 3, "11": 2, "12": 2, "22": 2, "13": 3, "23": 3, "33": 3, "44": 3,
		"55": 4, "51": 4,
		"50": 4, "54": 4, "40": 0, "42": 0, "41": 0, "05": 0, "35": 0}
	for name, want := range used {
		a, b := name[0]-'0', name[1]-'0'
		backup := []*State{pictures[0][a], pictures[1][b]}
		states, _, err := Continue(backup, Restoration{Slots: slot.Even(1), Exact: true, Before: 100,
			Policies: f.worlds[0].policies})
		missing, unread := MissingSlots([][]byte{backup[0].SlotRecords(), backup[1].SlotRecords()})
		if unread != nil || (missing == 1) != (want == 0) || (err != nil) != (missing > 0) {
			t.Errorf("%s: %d slots are missing, %v: %v", name, missing, unread, err)
		}
		if err != nil {
			continue
		}
		w := &world{TB: t, state: states[0], policies: f.worlds[0].policies, index: 100, term: 9}
		w.append(EncodeEpochOpen(0, now, LevelNewest))
		if got := w.must(now, Request{Op: Get, Namespace: "default", Entries: checkOf("p", key, 1).Entries}).
			Limits[0].Used; got != want {
			t.Errorf("%s: %d used, not %d", name, got, want)
		}
		if w.state.HasSlotRecords() {
			t.Errorf("%s: the restored shard has a record of a slot", name)
		}
	}
}

// A picture that was taken before the first move to or from its shard has no record of any slot. What ended since, on
// the shard that a slot moved to, must not come back with it.
func TestARestoreTakesNothingFromBeforeAMove(t *testing.T) {
	for from := range ID(2) {
		f, _ := twoShards(t)
		key := keyIn(slot.Even(2), uint32(from), slot.Even(2), uint32(from))
		f.must(origin+1, checkOf("p", key, 1))
		before := f.worlds[from].backup()
		f.mover(slotOf(key), 1-from).move(origin + 1)
		f.must(origin+1, Request{Op: Reset, Namespace: "default", Entries: checkOf("p", key, 1).Entries})
		backup := []*State{f.worlds[0].backup(), f.worlds[1].backup()}
		backup[from] = before
		states, _, err := Continue(backup, Restoration{Slots: slot.Even(1), Exact: true, Before: 100,
			Policies: f.worlds[0].policies})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{TB: t, state: states[0], policies: f.worlds[0].policies, index: 100, term: 9}
		w.append(EncodeEpochOpen(0, origin+2, LevelNewest))
		w.wantUsed(origin+2, "p", key, 0)
	}
}

// TestASlotOfALostShardBeginsFull: nothing is left of the shard that a slot had moved to. What is left of the others
// goes on, with that slot empty and full, though a backup that merely lacks a slot is refused.
func TestASlotOfALostShardBeginsFull(t *testing.T) {
	f, key := twoShards(t)
	stays := key
	for i := 0; slotOf(stays) == slotOf(key) || slotOf(stays) >= slot.Count/2; i++ {
		stays = fmt.Sprint("stays-", i)
	}
	f.must(origin+1, checkOf("p", key, 1))
	f.must(origin+1, checkOf("p", stays, 1))
	f.mover(slotOf(key), 1).move(origin + 1)
	backup := []*State{f.worlds[0].backup(), NewState(1)}
	r := Restoration{Slots: slot.Even(2), At: origin + limit.Time(second), Before: 100, Policies: f.worlds[0].policies}
	if _, _, err := Continue(backup, r); err == nil {
		t.Error("a backup without the slot is restored, though another one has it")
	}
	r.Lost = true
	states, counts, err := Continue(backup, r)
	if err != nil {
		t.Fatal(err)
	}
	if counts.Keys != 1 {
		t.Errorf("%d keys are known, want the one whose slot has not moved", counts.Keys)
	}
	w := &world{TB: t, state: states[0], policies: f.worlds[0].policies, index: 100, term: 9}
	w.append(EncodeEpochOpen(0, r.At+1, LevelNewest))
	for _, key := range []string{key, stays} {
		if d := w.must(r.At+1, checkOf("p", key, 1)); d.Allowed {
			t.Errorf("%s is admitted: what it used since the backup is not known", key)
		}
	}
	if w.state.HasSlotRecords() {
		t.Error("the restored shard has a record of a slot")
	}
}

// TestTheRecordOfASlot comes back, also from a snapshot; one that cannot be read refuses its keys alone.
func TestTheRecordOfASlot(t *testing.T) {
	var text strings.Builder
	for _, s := range []SlotStatus{{State: SlotOwned, Generation: 4}, {State: SlotPreparing, Generation: 5, Other: 1},
		{State: SlotFrozen, Generation: 5, Other: 1, Time: origin,
			Pushes: []Put{{"p\x01sfinal", Record{Value: []byte{1, 1}, ForgetAt: origin + 1}}}},
		{State: SlotMoved, Generation: 5, Other: 1},
		{State: SlotImporting, Generation: 5, Other: 300, Pages: 3, Place: 1 << 60, Ended: true},
		{State: SlotAborted, Generation: 5, Other: 0, Ended: true}} {
		value := s.encode()
		back, err := decodeSlotStatus(value)
		if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", s) || err != nil {
			t.Errorf("%+v came back as %+v, %v", s, back, err)
		}
		if _, err := decodeSlotStatus(value[:len(value)-1]); err == nil {
			t.Error("a part is a status")
		}
		// The golden file has a record without the name of its Go type.
		said := strings.NewReplacer("Record:{", "", "}}]", "}]").Replace(fmt.Sprintf("%+v", s))
		fmt.Fprintf(&text, "%x %x\n  %s %s\n", slotKey(258), value, s.State, said)
	}
	golden(t, "testdata/slot_status.golden", text.String())

	f, key := twoShards(t)
	w := f.worlds[0]
	w.append(EncodeBatch(w.next(origin+1),
		[]Put{{Key: slotKey(slotOf(key)), Record: Record{Value: []byte{99}, ForgetAt: limit.Forever}}}))
	w.state = w.backup()
	if err := w.refused(origin+2, checkOf("p", key, 1)); err.Code != Unreadable {
		t.Errorf("%+v", err)
	}
	other := key
	for i := 0; slotOf(other) == slotOf(key) || f.slots[slotOf(other)] != 0; i++ {
		other = fmt.Sprint("other ", i)
	}
	w.must(origin+2, checkOf("p", other, 1))
}

// TestAMessageForAMovedSlotIsRefused: a former owner that answered for an operation would abort it.
func TestAMessageForAMovedSlotIsRefused(t *testing.T) {
	f, key := twoShards(t)
	at := slotOf(key)
	f.mover(at, 1).move(origin + 1)
	for _, op := range []Op{AskHome, ResolveHome} {
		r := Request{Op: op, Namespace: "default",
			Operation: &Operation{ID: "x", Op: Check, Home: at, Leg: at + 1, Fingerprint: 7}}
		if err := f.worlds[0].refused(origin+2, r); err.Code != Moved || err.To != 1 || err.Slot != at {
			t.Errorf("operation %d: %+v", op, err)
		}
	}
}

// TestAMovedLeaseCountsInTheLimitsOfItsEnd: whichever of two shards adopts a revision first, and when, a limit that it
// adds counts what a lease spends, also if no request asks for the key as long as the other limits count anything.
func TestAMovedLeaseCountsInTheLimitsOfItsEnd(t *testing.T) {
	before, after := leaseRevision(t, 1, leased, ""), leaseRevision(t, 2, leased, laterLimit)
	// before the pages, after them, when taken
	for _, adopted := range [][3]string{{"1", "0", ""}, {"01", "", ""}, {"", "1", "0"}, {"", "0", "1"}} {
		p, _ := before.Set.Lookup("p")
		f := newFleet(t, 2, p)
		key := keyIn(slot.Even(2), 0, slot.Even(2), 0)
		now := origin
		adopt := func(on ID, r policy.Revision) {
			now++
			f.adopt(now, on, r)
		}
		adopt(0, before)
		adopt(1, before)
		f.must(now, leaseOf(key, LeaseTerms{Holder: "a", Number: 1, Units: 40}))
		m := f.mover(slotOf(key), 1)
		m.prepare(now)
		m.freeze(now)
		for step, by := range adopted {
			for _, on := range by {
				adopt(ID(on-'0'), after)
			}
			if now++; step == 0 {
				m.copy(now)
			} else if step == 1 {
				m.take(now)
			}
		}
		if used := f.worlds[1].usedOf(now+limit.Time(25*second), "p", key); len(used) != 2 || used[1] != 40 {
			t.Errorf("adopted %q: %d are used", adopted, used)
		}
	}
}

// TestAMovedBucketRefillsOnce: a lease has its key brought up wherever a shard adopts a revision, also after the freeze,
// and then the other shard stores it: never as of an earlier instant, since its bucket would refill twice from then on.
func TestAMovedBucketRefillsOnce(t *testing.T) {
	revision := func(version uint64) policy.Revision {
		return bucketRevision(t, version, "lease: {units: 40, for: 10s}, ")
	}
	const ms = 1000
	for what, split := range map[string]bool{"on the first page": false, "on a later page": true} {
		p, _ := revision(1).Set.Lookup("p")
		f := newFleet(t, 2, p)
		key := keyIn(slot.Even(2), 0, slot.Even(2), 0)
		now := origin + 1*ms
		for on := range ID(2) {
			f.adopt(now, on, revision(1))
		}
		f.adopt(now, 1, revision(3))
		f.must(now, leaseOf(key, LeaseTerms{Holder: "a", Number: 1, Units: 40}))
		f.must(now, checkOf("p", key, 900))
		m := f.mover(slotOf(key), 1)
		m.prepare(now)
		m.freeze(now)
		put, place := MoveTerms{Step: MovePut}, uint64(0)
		if split {
			read, err := m.ask(now, 0, MoveTerms{Step: MoveRead})
			if err != nil {
				t.Fatal(err)
			}
			place = table.Place(keyLayout{}, []byte(read.Page.Records[1].Key))
			put.Put = MovePage{Records: read.Page.Records[:1], Time: read.Page.Time, Next: place}
			if a, err := m.ask(now, 1, put); err != nil || a.Status.Pages != 1 {
				t.Fatalf("%s: %+v, %v", what, a, err)
			}
			put.Place, put.Page = place, 1
		}
		f.adopt(now+300*ms, 0, revision(2))
		read, err := m.ask(now+310*ms, 0, MoveTerms{Step: MoveRead, Place: place})
		if err != nil {
			t.Fatal(err)
		}
		m.frozen, put.Put = read.Status, read.Page
		at := now + 2*ms // it is behind
		for stored := false; !stored; at += ms {
			a, err := m.ask(at, 1, put)
			if stored = a.Status.Ended; err != nil || at > now+400*ms {
				t.Fatalf("%s: it waits for %q, %v", what, a.Waits, err)
			}
		}
		m.take(now + 310*ms)
		// 870 are missing when the shard of the first 900 has refilled for 300 ms at 100 a second, and at most 300 a
		// second come back later.
		if used := f.worlds[1].usedOf(now+310*ms, "p", key)[0]; used < 870-3+40 {
			t.Errorf("%s: %d are used", what, used)
		}
	}
}

// bucketRevision returns a revision of a policy whose bucket gets 100 tokens a second for each version.
func bucketRevision(t *testing.T, version uint64, lease string) policy.Revision {
	text := fmt.Appendf(nil, "policies: {p: {%slimits: [{name: a, quota: 1000, token_bucket: {refill: %d, per: 1s}}]}}",
		lease, 100*version)
	set, err := policy.Parse("", text)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Revision{Version: version, Text: text, Set: set}
}

// A key comes to a shard that has long adopted a revision which the key's shard has not: it was counted under the old
// numbers until then.
func TestAMovedKeyGetsARevisionWhenItMoves(t *testing.T) {
	before, after := bucketRevision(t, 1, ""), bucketRevision(t, 2, "")
	p, _ := before.Set.Lookup("p")
	f := newFleet(t, 2, p)
	key := keyIn(slot.Even(2), 0, slot.Even(2), 0)
	f.adopt(origin, 0, before)
	f.adopt(origin, 1, before)
	f.must(origin, checkOf("p", key, 900))
	f.adopt(origin+limit.Time(second), 1, after)
	now := origin + limit.Time(5*second)
	m := f.mover(slotOf(key), 1)
	m.prepare(now)
	m.freeze(now)
	m.copy(now)
	m.take(now)
	if used := f.worlds[1].usedOf(now, "p", key)[0]; used != 900-5*100 {
		t.Errorf("%d are used", used)
	}
}

// The shard that takes the slot may have adopted long ago that the policy allows no leases.
func TestAMovedLeaseCountsInALaterLimit(t *testing.T) {
	before := leaseRevision(t, 1, leased, "")
	p, _ := before.Set.Lookup("p")
	f := newFleet(t, 2, p)
	key := keyIn(slot.Even(2), 0, slot.Even(2), 0)
	f.adopt(origin, 0, before)
	f.adopt(origin, 1, before)
	f.adopt(origin+1, 1, leaseRevision(t, 2, "", ""))
	now := origin + limit.Time(minute)
	f.must(now, leaseOf(key, LeaseTerms{Holder: "a", Number: 1, Units: 40}))
	m := f.mover(slotOf(key), 1)
	m.prepare(now)
	m.freeze(now)
	m.copy(now + 1)
	m.take(now + 2)
	f.adopt(now+3, 1, leaseRevision(t, 3, "", laterLimit))
	if used := f.worlds[1].usedOf(now+limit.Time(25*second), "p", key); len(used) != 2 || used[1] != 40 {
		t.Errorf("%d are used", used)
	}
}

const (
	leased     = "lease: {units: 40, for: 2s}, "
	laterLimit = ", {name: b, quota: 100, calendar: {unit: hour}}"
)

// leaseRevision returns a revision of a policy with a short limit and with more.
func leaseRevision(t *testing.T, version uint64, lease, more string) policy.Revision {
	text := []byte("policies: {p: {" + lease + "limits: [{name: a, quota: 100, sliding_log: {period: 20s}}" +
		more + "]}}")
	set, err := policy.Parse("", text)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Revision{Version: version, Text: text, Set: set}
}

// adopt has a shard adopt a revision.
func (f *fleet) adopt(now limit.Time, on ID, r policy.Revision) {
	w := f.worlds[on]
	at := w.next(now)
	w.append(EncodeBatch(at, Adopt(w, w.policies, r, at)))
	w.policies = r.Set
}

// TestASlotThatMovedCostsNoMore: nearly all slots of a cluster that has grown have a record, and each request looks for
// it.
func TestASlotThatMovedCostsNoMore(t *testing.T) {
	const batches, size = 200, 16
	allocations := func(w *world, key string) int {
		requests, now := make([]Request, size), w.state.Time()
		for i := range requests {
			requests[i] = checkOf("p", key, 1)
		}
		return int(testing.AllocsPerRun(batches, func() {
			now += limit.Time(millisecond)
			w.batch(now, requests...)
		}))
	}
	f := newFleet(t, 2, onePolicy(lifetimeOf(1_000_000)))
	key := keyIn(f.slots, 0, f.slots, 0)
	before := allocations(f.worlds[0], key)
	f.mover(slotOf(key), 1).move(f.worlds[0].state.Time())
	if after := allocations(f.worlds[1], key); after > before+size/2 {
		t.Errorf("%d requests: %d allocations, and %d on the shard that the slot moved to", size, before, after)
	}
}
