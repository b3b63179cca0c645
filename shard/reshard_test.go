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
)

// fleet is the data shards of a cluster, each a world, without the nodes that coordinate operations.
type fleet struct {
	testing.TB
	slots    *slot.Map
	worlds   []*world
	policies []*policy.Policy
	moved    bool // since it was founded or restored: events stay with the shard that wrote them
}

func newFleet(t testing.TB, shards uint32, policies ...*policy.Policy) *fleet {
	f := &fleet{TB: t, slots: slot.Even(shards), policies: policies}
	for id := range ID(shards) {
		w := &world{TB: t, state: NewState(id), policies: policy.NewSet(policies), term: 1, table: f.slots}
		w.append(EncodeEpochOpen(id, origin, LevelNewest))
		f.worlds = append(f.worlds, w)
	}
	return f
}

// at returns the world of a request's slot.
func (f *fleet) at(r *Request) *world { return f.worlds[f.slots[r.Slot()]] }

func (f *fleet) must(now limit.Time, r Request) Decision {
	f.Helper()
	return f.at(&r).must(now, r)
}

// restored returns the cluster with another number of shards, as an exact backup makes it, or one of before.
func (f *fleet) restored(shards uint32, how Restoration) (*fleet, error) {
	how.Slots, how.Policies = slot.Even(shards), policy.NewSet(f.policies)
	var backup []*State
	term := uint64(0)
	for _, w := range f.worlds {
		backup = append(backup, w.backup())
		how.Before, term = max(how.Before, w.index+epochsAhead), max(term, w.term+1)
	}
	states, _, err := Continue(backup, how)
	if err != nil {
		return nil, err
	}
	next := &fleet{TB: f.TB, slots: how.Slots, policies: f.policies}
	for _, s := range states {
		w := &world{TB: f.TB, state: s, policies: how.Policies, index: how.Before, term: term, table: how.Slots}
		audit(f.TB, s)
		w.append(EncodeEpochOpen(s.id, s.Time(), LevelNewest))
		next.worlds = append(next.worlds, w)
	}
	return next, nil
}

func (f *fleet) exactly(shards uint32) *fleet {
	f.Helper()
	next, err := f.restored(shards, Restoration{Exact: true, At: limit.MaxTime}) // which has no meaning
	if err != nil {
		f.Fatal(err)
	}
	return next
}

// keyIn returns a key that a shard of a cluster has, and another shard of another cluster.
func keyIn(slots *slot.Map, on uint32, later *slot.Map, then uint32) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key ", i)
		if at := slot.Of("default", key); slots[at] == on && later[at] == then {
			return key
		}
	}
}

// TestHoldsOfOnePlaceOfTwoShardsMeet: two shards have made a decision at one place of their logs, and one shard has
// both now. Each is settled by its own id, an id is answered as before, and what was answered by a replay can be
// settled.
func TestHoldsOfOnePlaceOfTwoShardsMeet(t *testing.T) {
	f := newFleet(t, 2, onePolicy(lifetimeOf(100)))
	one, other := keyIn(f.slots, 0, slot.Even(1), 0), keyIn(f.slots, 1, slot.Even(1), 0)
	reserve := func(key string, cost uint64) Request {
		r := reserveOf(Entry{Policy: "p", Key: key, Cost: cost})
		r.ID = "id"
		r.Hold.TTL = hour
		return r
	}
	now := origin + limit.Time(second)
	first, second := f.must(now, reserve(one, 3)), f.must(now, reserve(other, 5))
	if first.Position.Epoch != second.Position.Epoch || first.Position.Seq != second.Position.Seq ||
		first.Index != second.Index {
		t.Fatalf("two places: %+v, %+v", first.Position, second.Position)
	}
	for _, shards := range []uint32{1, 2, 1, 5, 1} {
		f = f.exactly(shards)
		for key, want := range map[string]Decision{one: first, other: second} {
			r := reserve(key, map[string]uint64{one: 3, other: 5}[key])
			if d := f.must(now, r); !d.Replayed || d.Position != want.Position || d.Index != want.Index {
				t.Fatalf("on %d shards the id is answered %+v, was %+v", shards, d, want)
			}
		}
	}
	f.must(now, settleOf(reserve(other, 5), second, Settlement{Action: ActionCancel}))
	f.worlds[0].wantUsed(now, "p", one, 3)
	f.worlds[0].wantUsed(now, "p", other, 0)
	f = f.exactly(3)
	f.must(now, settleOf(reserve(one, 3), first, Settlement{Action: ActionCancel}))
	again := f.must(now, settleOf(reserve(other, 5), second, Settlement{Action: ActionCancel}))
	if !again.Replayed {
		t.Errorf("the hold ends twice: %+v", again)
	}
}

// TestWhatWasLostIsNamedByItsShard: a decision of the lost part of one log is refused, and one of the same place of
// another is not.
func TestWhatWasLostIsNamedByItsShard(t *testing.T) {
	f := newFleet(t, 2, onePolicy(limit.Limit{Algorithm: limit.Concurrency, Quota: 9}))
	one, other := keyIn(f.slots, 0, slot.Even(1), 0), keyIn(f.slots, 1, slot.Even(1), 0)
	reserve := func(key string) Request {
		r := reserveOf(Entry{Policy: "p", Key: key, Cost: 1})
		r.Hold.TTL = MaxHoldTTL
		return r
	}
	known := f.must(origin+1, reserve(one))
	at := origin + limit.Time(minute)
	next, err := f.restored(1, Restoration{At: at})
	if err != nil {
		t.Fatal(err)
	}
	lost := f.must(origin+1, reserve(other)) // the same place, after the backup
	if lost.Position.Seq != known.Position.Seq {
		t.Fatal("another place")
	}
	settle := func(f *fleet, key string, d Decision) *Error {
		r := settleOf(reserve(key), d, Settlement{Action: ActionExtend, TTL: MaxHoldTTL})
		results, _ := f.at(&r).batch(at, r)
		return results[0].Err
	}
	for _, shards := range []uint32{1, 4, 1} { // the gaps go along
		next = next.exactly(shards)
		if err := settle(next, other, lost); err == nil || !strings.Contains(err.Message, "was lost when") {
			t.Errorf("%d shards: what was lost: %v", shards, err)
		}
		if err := settle(next, one, known); err != nil {
			t.Errorf("%d shards: what is known: %v", shards, err)
		}
	}
	lost.DecidedAt = at // by a shard that the cluster got after the restore, with a log of its own
	if err := settle(next, other, lost); err == nil || strings.Contains(err.Message, "was lost when") {
		t.Errorf("what a new shard decides at a place that was lost: %v", err)
	}
}

// TestKeysOfAnOpenHoldStayTogether: a hold that one shard took on several slots is settled by one shard.
func TestKeysOfAnOpenHoldStayTogether(t *testing.T) {
	f := newFleet(t, 1, onePolicy(lifetimeOf(100)))
	three := slot.Even(3)
	one, near, far := keyIn(slot.Even(6), 0, three, 0), keyIn(slot.Even(6), 1, three, 0), keyIn(f.slots, 0, three, 2)
	hold := func(key string) (Request, Decision) {
		r := reserveOf(Entry{Policy: "p", Key: one, Cost: 1}, Entry{Policy: "p", Key: key, Cost: 2})
		r.Hold.TTL = hour
		return r, f.must(origin+1, r)
	}
	together, d := hold(near)
	next := f.exactly(3)
	next.must(origin+2, settleOf(together, d, Settlement{Action: ActionCancel}))
	next.at(&together).wantUsed(origin+2, "p", near, 0)

	hold(far)
	for now, want := range map[limit.Time]string{0: "1 open holds have keys", origin + 1 + limit.Time(hour): ""} {
		for _, how := range []Restoration{{Exact: true, Now: now}, {At: max(now, origin+2), Now: now}} {
			_, err := f.restored(3, how)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), instantWords(origin+1+limit.Time(hour)))) {
				t.Errorf("restored at %s: %v", clock(now), err)
			}
			if _, err := f.restored(1, how); err != nil {
				t.Errorf("to as many shards: %v", err)
			}
		}
	}
	// Two shards were just founded, and the slots still are to move: as many shards as before would part the keys.
	founded := []*State{f.worlds[0].backup(), NewState(1), NewState(2)}
	how := Restoration{Slots: three, Exact: true, Policies: f.worlds[0].policies}
	if _, _, err := Continue(founded, how); err == nil ||
		!strings.Contains(err.Error(), "restore after that, or to fewer shards, of which one parts none") {
		t.Errorf("the way out is not named: %v", err)
	}
	how.Slots = slot.Even(1)
	if _, _, err := Continue(founded, how); err != nil {
		t.Errorf("to one shard: %v", err)
	}
}

// TestShardTimeIsThatOfTheNewest: no window opens earlier than the shard that a key was on would have opened it.
func TestShardTimeIsThatOfTheNewest(t *testing.T) {
	f := newFleet(t, 3, onePolicy(lifetimeOf(100)))
	newest := origin + limit.Time(hour)
	f.must(newest, checkOf("p", keyIn(f.slots, 1, f.slots, 1), 1))
	f.must(origin+2, checkOf("p", keyIn(f.slots, 2, f.slots, 2), 1))
	for _, w := range f.exactly(5).worlds {
		if w.state.Time() != newest {
			t.Errorf("shard %v is at %s", w.state.id, clock(w.state.Time()))
		}
	}
}

// TestEventsAndTheAuditLogGoAlong: each event is on the shard of its key, once, with its sinks, and no change is
// missing.
func TestEventsAndTheAuditLogGoAlong(t *testing.T) {
	p := onePolicy(lifetimeOf(1000))
	p.Limits[0].Thresholds, p.Notify = []policy.Threshold{{Units: 1}, {Units: 2}, {Units: 3}}, []string{"a", "b"}
	f := newFleet(t, 4, p)
	for i := range 40 {
		key, now := fmt.Sprint("k", i), origin+limit.Time(i+1)
		f.must(now, checkOf("p", key, 1+uint64(i%3)))
		f.must(now, adjustOf(SetUsed, "p", key, Adjustment{Actor: key}))
	}
	for _, w := range f.worlds {
		events := w.events(EventsWaiting)
		for i, place := range places(events) {
			w.must(w.state.Time(), AcknowledgeRequest(w.state.id, []string{"a", "b", "none"}[i%3], []EventPlace{place}))
			w.must(w.state.Time(), GiveUpRequest(w.state.id, []string{"none", "a", "b"}[i%3], []EventPlace{place},
				fmt.Sprint("why ", i)))
		}
	}
	f.worlds[3].lose(5)
	want := f.told()
	if want["change"] != 40 || want["lost"] != 5 || want["list 0"] == 0 || want["list 1"] == 0 || want["list 2"] == 0 {
		t.Fatalf("%d things are told", len(want))
	}
	for _, shards := range []uint32{1, 3, 2, 5, 4} {
		f = f.exactly(shards)
		got := f.told()
		for what, n := range got {
			if want[what] != n {
				t.Errorf("%d shards: %s is there %d times, not %d", shards, what, n, want[what])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d shards tell of %d things, not %d", shards, len(got), len(want))
		}
	}
}

// told counts all events and changes of the cluster.
func (f *fleet) told() map[string]int {
	told := map[string]int{}
	for _, w := range f.worlds {
		page, err := ReadEvents(w.state, EventsQuery{})
		if err != nil {
			f.Fatal(err)
		}
		told["lost"] += int(page.Lost)
		for list := EventsWaiting; list <= EventsPast; list++ {
			for _, e := range w.events(list) {
				if on := Of(f.slots, e.Namespace, e.Key); on != w.state.id && !f.moved {
					f.Errorf("an event of shard %v is on shard %v", on, w.state.id)
				}
				told[fmt.Sprint("list ", list)]++
				told[fmt.Sprint("event ", list, e.ID("ledger"), e.Sinks, e.Why)]++
			}
		}
		changes := w.must(w.state.Time(), Request{Op: ReadAudit, Namespace: "default"})
		for _, a := range changes.Answer().Audit {
			told["change"]++
			told[fmt.Sprintf("change %+v", a)]++
		}
	}
	return told
}

// lose counts events as lost.
func (w *world) lose(n uint64) {
	b := batch{view: w, at: w.next(w.state.Time())}
	o := openOutbox(&b)
	o.head.lost += n
	o.save()
	w.append(EncodeBatch(b.at, b.puts()))
}

// TestNoBillIsLeftOutOfAPush: a shard that gets the bills of one shard goes on where that was; one that gets the bills
// of several begins with what any of them had not sent. What a sink was not sent is counted once.
func TestNoBillIsLeftOutOfAPush(t *testing.T) {
	p := onePolicy(lifetimeOf(1000))
	p.Meter = randomMeter(seeded(t))
	f := newFleet(t, 1, p)
	skipped := &SkippedBills{At: 5, Bills: 2, Newest: []SkippedBill{{"use_1", "no"}}}
	walk := PushPosition{Done: 7, Through: 9, From: UsagePlace{Place: 1 << 60}, Tried: 8, Skipped: skipped}
	f.must(origin+1, checkOf("p", "k", 1))
	f.worlds[0].push(walk)
	f = f.exactly(3)
	bills := uint64(0)
	for _, w := range f.worlds {
		at := w.pushed()
		if at.Skipped != nil {
			bills += at.Skipped.Bills
		}
		if at.Skipped = skipped; !reflect.DeepEqual(at, walk) {
			t.Errorf("shard %v goes on at %+v", w.state.id, at)
		}
	}
	if bills != 2 {
		t.Errorf("%d bills are skipped", bills)
	}

	f = newFleet(t, 3, p)
	for id, done := range []limit.Time{40, 50, 3} {
		f.worlds[id].push(PushPosition{Done: done, Through: done + 20, From: UsagePlace{Place: 5}, Skipped: skipped})
	}
	for id := range uint32(2) { // the third has no bills
		f.must(origin+1, checkOf("p", keyIn(f.slots, id, f.slots, id), 1))
	}
	if at := f.exactly(1).worlds[0].pushed(); at.Done != 40 || at.Through != 0 || at.From != (UsagePlace{}) ||
		at.Skipped.Bills != 6 {
		t.Errorf("all bills: %+v", at)
	}
	f.must(origin+2, checkOf("p", keyIn(f.slots, 2, f.slots, 2), 1))
	if at := f.exactly(1).worlds[0].pushed(); at.Done != 3 {
		t.Errorf("with those of the third: %+v", at)
	}
}

func (w *world) push(at PushPosition) {
	w.Helper()
	text, err := at.Encode()
	if err != nil {
		w.Fatal(err)
	}
	w.must(w.state.Time(), PushRequest(w.state.id,
		&Push{Sink: "stripe", Period: "final", Position: text, Until: origin + limit.Time(day)}))
}

func (w *world) pushed() (at PushPosition) {
	w.Helper()
	p, err := ReadPush(w.state, "stripe", "final")
	if err == nil {
		err = json.Unmarshal(p.Position, &at)
	}
	if err != nil || p.Version != 1 || p.Until != origin+limit.Time(day) {
		w.Fatalf("%+v, %v", p, err)
	}
	return at
}

// TestAShardThatLearnedOfNumbersLateAdoptsThem: a limit got its numbers when the last shard learned of them, which had
// counted under the old ones until then.
func TestAShardThatLearnedOfNumbersLateAdoptsThem(t *testing.T) {
	revision := func(version, quota uint64) policy.Revision {
		text := fmt.Sprintf("policies: {p: {on_change: reset, limits: [{name: a, quota: %d, lifetime: {}}]}}", quota)
		set, err := policy.Parse("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return policy.Revision{Version: version, Text: []byte(text), Set: set}
	}
	old, new := revision(1, 10), revision(2, 20)
	p, _ := new.Set.Lookup("p")
	for _, learned := range []bool{true, false} {
		f := newFleet(t, 2, p)
		for id, w := range f.worlds {
			adopt := func(now limit.Time, before *policy.Set, r policy.Revision) {
				w.append(EncodeBatch(w.next(now), Adopt(w, before, r, w.next(now))))
				w.policies = r.Set
			}
			adopt(origin, nil, old)
			if id == 0 {
				adopt(origin+5, old.Set, new)
			}
			w.must(origin+9, checkOf("p", keyIn(f.slots, uint32(id), f.slots, uint32(id)), 4))
			if id == 1 && learned {
				adopt(origin+10, old.Set, new)
			}
		}
		w := f.exactly(1).worlds[0]
		version, _, changes, err := adopted(w.state)
		want := []numberChange{{"p", "a", map[bool]limit.Time{true: origin + 10, false: origin + 9}[learned]}}
		if version != 2 || err != nil || !reflect.DeepEqual(changes, want) {
			t.Errorf("version %d was adopted, with %+v, %v; want %+v", version, changes, err, want)
		}
		w.wantUsed(origin+11, "p", keyIn(f.slots, 0, f.slots, 0), 4)
		w.wantUsed(origin+11, "p", keyIn(f.slots, 1, f.slots, 1), 0) // it begins anew with the numbers
	}
}
