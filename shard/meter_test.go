package shard

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// billed returns a policy with a meter of hours, which keeps two, final after a minute.
func billed(limits ...limit.Limit) *policy.Policy {
	p := onePolicy(limits...)
	p.Meter = &policy.Meter{Name: "calls", Cycle: &limit.Cycle{Unit: limit.Hour, Every: 1, Zone: zones[0]}, Retain: 2,
		Grace: minute}
	return p
}

// bills returns what a reader sees of a namespace at an instant.
func (w *world) bills(at limit.Time, q UsageQuery) (all []Usage) {
	w.Helper()
	for {
		page := w.page(at, q)
		all = append(all, page.Periods...)
		if q.From = page.Next; q.From == (UsagePlace{}) {
			return all
		}
	}
}

// page reads one page, by a batch at the next instant, which is not logged.
func (w *world) page(at limit.Time, q UsageQuery) UsagePage {
	w.Helper()
	results, puts := Evaluate(w, w.policies, []Request{UsageRequest("default", w.state.id, q)}, w.next(at+1))
	if results[0].Err != nil || len(puts) > 0 {
		w.Fatalf("%v, with effects %v", results[0].Err, puts)
	}
	page, err := UsageOf("default", &results[0].Decision)
	if err != nil || page.Through != at {
		w.Fatalf("a page through %d: %v", page.Through, err)
	}
	return page
}

// wantBills compares the figures: hour of the start since origin, units and credits.
func (w *world) wantBills(at limit.Time, key string, want ...[3]uint64) {
	w.Helper()
	var got [][3]uint64
	for _, u := range w.bills(at, UsageQuery{Key: key}) {
		got = append(got, [3]uint64{uint64(u.Start-origin) / uint64(hour), u.Units, u.Credits})
	}
	if !slices.Equal(got, want) {
		w.Errorf("the bill of %s at %v is %v, want %v", key, at-origin, got, want)
	}
}

const anHour = limit.Time(hour)

func TestABillIsWhatWasAdmittedLessWhatWasGivenBack(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(10)))
	d := w.must(origin, checkOf("p", "ann", 7))
	if denied := w.must(origin+1, checkOf("p", "ann", 4)); denied.Allowed {
		t.Fatal("4 more fit")
	}
	w.wantBills(origin+1, "ann", [3]uint64{0, 7, 0})
	w.must(origin+2, settleOf(checkOf("p", "ann", 7), d, Settlement{Action: ActionCommit, Actual: []uint64{5}}))
	w.wantBills(origin+2, "ann", [3]uint64{0, 5, 0})
	w.must(origin+3, adjustOf(Reset, "p", "ann", Adjustment{}))
	w.must(origin+4, adjustOf(SetUsed, "p", "ann", Adjustment{Amount: 2}))
	w.must(origin+5, adjustOf(AddUsed, "p", "ann", Adjustment{Amount: 3}))
	w.wantBills(origin+5, "ann", [3]uint64{0, 5, 0})
	w.must(origin+6, Request{Op: Count, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "ann", Cost: 20}}})
	w.wantBills(origin+6, "ann", [3]uint64{0, 25, 0})
}

// TestUnitsComeBackToTheirPeriodUntilItIsFinal: and to the open one later.
func TestUnitsComeBackToTheirPeriodUntilItIsFinal(t *testing.T) {
	p := billed(lifetimeOf(1000))
	p.Retention = 2 * hour
	w := newWorld(t, p)
	early, late := w.must(origin+anHour-2, checkOf("p", "ann", 5)), w.must(origin+anHour-1, checkOf("p", "ann", 6))
	final := origin + anHour + limit.Time(minute)
	w.must(final-1, settleOf(checkOf("p", "ann", 5), early, Settlement{Action: ActionCancel}))
	w.wantBills(final-1, "ann", [3]uint64{0, 6, 0})
	w.must(final, settleOf(checkOf("p", "ann", 6), late, Settlement{Action: ActionCommit, Actual: []uint64{2}}))
	w.wantBills(final, "ann", [3]uint64{0, 6, 0}, [3]uint64{1, 0, 4})
	w.must(final+1, checkOf("p", "ann", 3))
	w.wantBills(final+1, "ann", [3]uint64{0, 6, 0}, [3]uint64{1, 3, 4})
}

// TestAHoldIsBilledWhereItWasTaken: it comes back to that period if it ends before final, regardless of reads; an
// excess over it belongs to the period of its settlement.
func TestAHoldIsBilledWhereItWasTaken(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	hold := func(key string, ttl limit.Span) (Request, Decision) {
		r := reserveOf(Entry{Policy: "p", Key: key, Cost: 8})
		r.Hold.TTL = ttl
		return r, w.must(origin+anHour-1, r)
	}
	hold("before", minute)
	hold("after", minute+2)
	over, overHold := hold("over", 10*minute)
	late := origin + 3*anHour - 1 // the keys are untouched since
	w.wantBills(late, "before", [3]uint64{0, 0, 0})
	w.wantBills(late, "after", [3]uint64{0, 8, 0}, [3]uint64{1, 0, 8})
	w.must(origin+anHour+1, settleOf(over, overHold,
		Settlement{Action: ActionCommit, Actual: []uint64{11}, Overage: OverageDebt}))
	w.wantBills(late, "over", [3]uint64{0, 8, 0}, [3]uint64{1, 3, 0})
	w.must(late-1, checkOf("p", "after", 1))
	w.wantBills(late, "after", [3]uint64{0, 8, 0}, [3]uint64{1, 0, 8}, [3]uint64{2, 1, 0})
}

// TestACreditIsKeptAsLongAsItsPeriod: a hold that expires without a read begins a whole period, though the one before
// was cut short by a calendar that changed.
func TestACreditIsKeptAsLongAsItsPeriod(t *testing.T) {
	minutely := limit.Limit{Algorithm: limit.FixedWindow, Quota: 1000, Period: minute}
	w := newWorld(t, billed(minutely))
	w.must(origin, checkOf("p", "ann", 1))
	rare := billed(minutely)
	rare.Meter.Cycle = &limit.Cycle{Unit: limit.Hour, Every: 4, Zone: zones[0]}
	w.policies = policy.NewSet([]*policy.Policy{rare})
	r := reserveOf(Entry{Policy: "p", Key: "ann", Cost: 8})
	r.Hold.TTL = 3*hour + 2*minute
	w.must(origin+anHour, r) // in a period of three hours, which is final at 4:01
	w.must(origin+5*anHour, checkOf("p", "bob", 1))
	kept := origin + 16*anHour // the period from 4 to 8 o'clock, and two more
	for at := kept - 2*anHour; at < kept; at += anHour / 4 {
		w.must(at, checkOf("p", "bob", 1)) // which removes what is forgotten
		w.wantBills(at, "ann", [3]uint64{4, 0, 8})
	}
}

// TestPeriodsCloseWithoutAnEntry: and are forgotten after as many periods as the meter retains.
func TestPeriodsCloseWithoutAnEntry(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "bob", 9))
	for n := range 5 {
		w.must(origin+limit.Time(n)*anHour, checkOf("p", "ann", uint64(n+1)))
	}
	w.wantBills(origin+4*anHour, "ann", [3]uint64{2, 3, 0}, [3]uint64{3, 4, 0}, [3]uint64{4, 5, 0})
	w.wantBills(origin+3*anHour-1, "bob", [3]uint64{0, 9, 0})
	seq := w.state.Seq()
	w.wantBills(origin+7*anHour-1, "ann", [3]uint64{4, 5, 0})
	w.wantBills(origin+7*anHour, "ann")
	if w.state.Seq() != seq {
		t.Error("closing a period has written an entry")
	}
}

// TestTheSelectionOfUsage: policy, key and start.
func TestTheSelectionOfUsage(t *testing.T) {
	q := billed(lifetimeOf(1000))
	q.Name = "q"
	w := newWorld(t, billed(lifetimeOf(1000)), q)
	both := func(at limit.Time, policy string, cost uint64) {
		w.must(at, checkOf(policy, "ann", cost))
		w.must(at, checkOf(policy, "bob", cost))
	}
	both(origin+23*anHour, "p", 1)
	both(origin+24*anHour, "p", 2)
	both(origin+24*anHour+1, "q", 3)
	w.must(origin+24*anHour+2, Request{Op: Check, Namespace: "other",
		Entries: []Entry{{Policy: "p", Key: "ann", Cost: 9}}})
	at := origin + 24*anHour + 5
	for want, query := range map[int]UsageQuery{6: {}, 3: {Key: "ann"}, 1: {Key: "ann", Policy: "q"},
		2: {Starts: "2026-01-05"}, 0: {Starts: "2025"}} {
		if got := w.bills(at, query); len(got) != want {
			t.Errorf("%+v selects %+v", query, got)
		}
	}
	if got := w.bills(at, UsageQuery{Starts: "2026-01-06", Policy: "p"}); len(got) != 2 || got[0].Units != 2 ||
		got[0].Final != got[0].End+limit.Time(minute) {
		t.Errorf("%+v", got)
	}
}

// TestTheBillsOfOneKeyAreOnePage: a query for them does not read the others.
func TestTheBillsOfOneKeyAreOnePage(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	at := origin
	for i := range 2 * usageScanned {
		at++
		w.must(at, checkOf("p", strconv.Itoa(i), 1))
	}
	for query, pages := range map[UsageQuery]int{{Policy: "p", Key: "7"}: 1, {Policy: "p", Key: "nobody"}: 1,
		{Key: "7"}: 3} {
		got := 1
		for q := query; ; got++ {
			at++
			d := w.must(at, UsageRequest("default", w.state.id, q))
			page, err := UsageOf("default", &d)
			if err != nil {
				t.Fatal(err)
			}
			if q.From = page.Next; q.From == (UsagePlace{}) {
				break
			}
		}
		if got > pages || pages > 1 && got == 1 {
			t.Errorf("%+v took %d pages", query, got)
		}
	}
}

// TestAPageEndsItsBatch: nothing is installed while it is read.
func TestAPageEndsItsBatch(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	page := UsageRequest("default", w.state.id, UsageQuery{})
	results, _ := Evaluate(w, w.policies, []Request{checkOf("p", "ann", 1), page, page}, w.next(origin))
	if len(results) != 2 {
		t.Errorf("%d of 3 requests were decided in one batch", len(results))
	}
}

// TestARecordThatCannotBeReadIsMissingInNoList: a flipped bit hides the records behind it.
func TestARecordThatCannotBeReadIsMissingInNoList(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.state.table = table.New(keyLayout{}, w.state.shares.count)
	// like a record with a flipped bit in its length
	w.state.table.Put("", Record{Value: []byte{1}, ForgetAt: limit.Forever})
	results, _ := Evaluate(w, w.policies, []Request{UsageRequest("default", w.state.id, UsageQuery{})},
		w.next(origin+1))
	if err := results[0].Err; err == nil || err.Code != Unreadable {
		t.Errorf("a list without it: %v", err)
	}
	forget := Request{Op: Forget, Namespace: "default", Entries: []Entry{{Key: "bob"}}, Adjustment: &Adjustment{}}
	if results, _ := Evaluate(w, w.policies, []Request{forget}, w.next(origin+1)); results[0].Err != nil &&
		results[0].Err.Code == Fault {
		t.Errorf("to forget another key: %v", results[0].Err)
	}
}

// TestAMeterComesAndGoes: what was admitted without it is not billed, nor given back to it, and its periods stay.
func TestAMeterComesAndGoes(t *testing.T) {
	with, without := billed(lifetimeOf(1000)), onePolicy(lifetimeOf(1000))
	with.Retention, without.Retention = hour, hour
	w := newWorld(t, without)
	use := func(p *policy.Policy) { w.policies = policy.NewSet([]*policy.Policy{p}) }
	cancel := func(at limit.Time, units uint64, d Decision) {
		w.must(at, settleOf(checkOf("p", "ann", units), d, Settlement{Action: ActionCancel}))
	}
	never := w.must(origin, checkOf("p", "ann", 5))
	use(with)
	first := w.must(origin+1, checkOf("p", "ann", 6))
	cancel(origin+2, 5, never)
	w.wantBills(origin+2, "ann", [3]uint64{0, 6, 0})
	use(without)
	between := w.must(origin+3, checkOf("p", "ann", 7))
	use(with)
	second := w.must(origin+4, checkOf("p", "ann", 8))
	cancel(origin+5, 7, between)
	w.wantBills(origin+5, "ann", [3]uint64{0, 14, 0})
	cancel(origin+6, 6, first)
	cancel(origin+7, 8, second)
	w.wantBills(origin+7, "ann", [3]uint64{0, 0, 0})
	w.must(origin+8, checkOf("p", "ann", 9))
	use(without)
	w.must(origin+9, checkOf("p", "ann", 1))
	w.wantBills(origin+2*anHour, "ann", [3]uint64{0, 9, 0})
	renamed := billed(lifetimeOf(1000))
	renamed.Meter.Name = "requests"
	use(renamed)
	w.must(origin+10, checkOf("p", "ann", 2))
	got := w.bills(origin+10, UsageQuery{})
	if len(got) != 2 || got[0].Meter != "calls" || got[0].Units != 9 || got[1].Meter != "requests" ||
		got[1].Units != 2 {
		t.Errorf("after the meter was renamed: %+v", got)
	}
}

// TestACalendarThatChangesOverlapsNothing: the period that is open ends when it was to end.
func TestACalendarThatChangesOverlapsNothing(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	daily := billed(lifetimeOf(1000))
	daily.Meter.Cycle = &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zones[0]}
	w.policies = policy.NewSet([]*policy.Policy{daily})
	w.must(origin+1, checkOf("p", "ann", 2))
	w.must(origin+anHour, checkOf("p", "ann", 4))
	got := w.bills(origin+anHour, UsageQuery{})
	if len(got) != 2 || got[0].Units != 3 || got[1].Start != got[0].End || got[1].End != origin+limit.Time(day) ||
		got[1].Units != 4 {
		t.Errorf("%+v", got)
	}
}

// TestARestoreMarksWhatItMayHaveLost: periods that were final in the backup are not, and what was taken before gives
// nothing back.
func TestARestoreMarksWhatItMayHaveLost(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	now := origin + anHour + limit.Time(minute)
	r := reserveOf(Entry{Policy: "p", Key: "ann", Cost: 8})
	r.Hold.TTL = minute
	w.must(now, r)
	backup := w.backup()
	w.must(now+1, checkOf("p", "ann", 100))
	w.goBack(backup, now+limit.Time(second))
	w.must(now+limit.Time(second)+1, checkOf("p", "bob", 2))
	w.must(origin+2*anHour, checkOf("p", "bob", 3))
	var got []string
	for _, u := range w.bills(origin+2*anHour, UsageQuery{}) {
		got = append(got, fmt.Sprint(u.Key, (u.Start-origin)/anHour, u.Units, u.Credits, u.Recovered))
	}
	slices.Sort(got)
	want := []string{"ann0 1 0 false", "ann1 8 0 true", "bob1 2 0 true", "bob2 3 0 false"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the restore: %q", got)
	}
}

func TestAForgottenKeyHasNoBill(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.must(origin+1, forgetOf("ann"))
	w.wantBills(origin+1, "ann")
}

// TestABrimfulShardBeginsNoPeriod: and goes on in one that is open.
func TestABrimfulShardBeginsNoPeriod(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.brim = true
	w.must(origin+1, checkOf("p", "ann", 1))
	if err := w.refused(origin+anHour, checkOf("p", "ann", 1)); err.Code != MemoryFull {
		t.Error(err)
	}
	w.wantBills(origin+anHour, "ann", [3]uint64{0, 2, 0})
}

// TestPagesAreBounded: a page reads no more than an owner may in one batch, and pages together have everything once.
func TestPagesAreBounded(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	const keys = 5000
	for i := range keys {
		w.must(origin+limit.Time(i), checkOf("p", fmt.Sprint("key", i), 1))
	}
	pages, met := 0, map[string]bool{}
	for q := (UsageQuery{}); ; pages++ {
		page := w.page(origin+keys, q)
		for _, u := range page.Periods {
			if met[u.Key] {
				t.Fatalf("%s is met twice", u.Key)
			}
			met[u.Key] = true
		}
		if len(page.Periods) > usageScanned {
			t.Fatalf("a page of %d", len(page.Periods))
		}
		if q.From = page.Next; q.From == (UsagePlace{}) {
			break
		}
	}
	if len(met) != keys || pages < 2 {
		t.Errorf("%d keys in %d pages", len(met), pages)
	}
}

// TestPagesGoOnAmongKeysOfOneHash: clients can choose such keys, more than a page may have.
func TestPagesGoOnAmongKeysOfOneHash(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	r, _ := w.state.Lookup(counterKeyOf("p", "ann"))
	const keys = 2000
	for _, key := range ofOneHash(counterKeyOf("p", ""), keys) {
		w.state.table.Put(key, r)
	}
	met := map[string]int{}
	for _, u := range w.bills(origin+1, UsageQuery{}) {
		met[u.Key]++
	}
	if len(met) != keys+1 {
		t.Errorf("%d keys are listed", len(met))
	}
	for key, n := range met {
		if n != 1 {
			t.Fatalf("%q is listed %d times", key, n)
		}
	}
}

// ofOneHash returns keys with a prefix and equal XXH64 that clients may choose. The second of two blocks of 32 bytes takes back what the first
// one adds to the first of the four sums (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
func ofOneHash(prefix string, n int) (keys []string) {
	const prime1, prime2 = uint64(0x9E3779B185EBCA87), uint64(0xC2B2AE3D27D4EB4F)
	inverse := prime2 // of prime2, modulo 2^64
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	round := func(sum, lane uint64) uint64 { return bits.RotateLeft64(sum+lane*prime2, 31) * prime1 }
	same, head := []byte(strings.Repeat("x", 24)), []byte(prefix+strings.Repeat("x", 32-len(prefix)%32))
	sum := prime1
	sum += prime2
	for at := 0; at < len(head); at += 32 {
		sum = round(sum, binary.LittleEndian.Uint64(head[at:]))
	}
	for i := 0; len(keys) < n; i++ {
		key := append(slices.Clone(head), fmt.Sprintf("%08d", i)...)
		first := binary.LittleEndian.Uint64(key[len(head):])
		key = binary.LittleEndian.AppendUint64(append(key, same...), -round(sum, first)*inverse)
		if KeyProblem(string(key[len(key)-8:])) == "" {
			keys = append(keys, string(append(key, same...)))
		}
	}
	return keys
}

// manyMeters is a counter with every part of a meter in its record.
func manyMeters() *counter {
	return &counter{key: "k", policy: inlinePolicy, ladderKnown: true,
		limits: countedLimits{{name: "a", limit: windowLimit, since: origin}},
		meters: []meter{
			{name: "calls", since: origin + 5, periods: []period{
				{start: origin, end: origin + anHour, grace: minute, keep: 2 * hour, units: 300, revised: origin + 9},
				{start: origin + 3*anHour, end: origin + 4*anHour, grace: 2 * minute, keep: 3 * hour, units: 1 << 40,
					credits: 7, revised: origin + 4*anHour, recovered: true, zone: -300},
			}},
			{name: "old", pauses: []pause{{origin + 1, origin + 2}, {origin + 3, limit.Forever}}, periods: []period{
				{start: origin, end: origin + limit.Time(day), grace: minute, keep: 2 * day, revised: origin}}},
		}}
}

// These bytes are stored in users' logs and snapshots, and pages are sent between nodes.
func TestGoldenBytesOfMeters(t *testing.T) {
	c := manyMeters()
	value := c.encode(origin + 6).Value
	page := UsagePage{Next: UsagePlace{1 << 63, "\x01"}, Through: origin, Periods: []Usage{
		{Namespace: "default", Policy: "p", Meter: "calls", Key: "ann", Start: origin, End: origin + anHour,
			Final: origin + anHour + limit.Time(minute), Units: 300, Credits: 7, Revision: uint64(origin),
			Recovered: true},
		{Namespace: "default", Policy: "p", Meter: "calls", Key: "ann", Start: origin + anHour, End: origin + 2*anHour,
			Final: origin + 2*anHour, Revision: 1}},
		Unreadable: []Usage{{Namespace: "default", Policy: "p", Key: "bad"}}}
	query := UsageRequest("default", 3, UsageQuery{Policy: "p", Key: "ann", Starts: "2026-01",
		From: UsagePlace{300, ""}})
	golden(t, "testdata/meter.golden", fmt.Sprintf("counter\n  %x\npage\n  %x\nquery\n  %x\n",
		value, resultMessage(&Result{Decision: Decision{System: &SystemAnswer{Usage: &page}}}), requestMessage(&query)))

	back := counter{policy: inlinePolicy}
	if err := back.decode(value, nil); err != nil || !reflect.DeepEqual(back.meters, c.meters) {
		t.Errorf("%v: it came back as %+v", err, back.meters)
	}
	for n := range value {
		if err := (&counter{policy: inlinePolicy}).decode(value[:n], nil); err == nil {
			t.Errorf("%d of %d bytes are a counter", n, len(value))
		}
	}
	again, err := UsageOf("default", resultBack(t, &SystemAnswer{Usage: &page}))
	if err != nil || !reflect.DeepEqual(again, page) {
		t.Errorf("%v: the page came back as %+v", err, again)
	}
}

// A period is of the month in which it began by the zone of then, whatever zone its meter has now, or whether there is
// one.
func TestAPeriodKeepsItsZone(t *testing.T) {
	zone := func(name string) *limit.Zone {
		z, err := limit.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	names := []string{"UTC", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Asia/Kathmandu"}
	for _, then := range names {
		for _, now := range append(names, "") {
			p := billed(lifetimeOf(1000))
			p.Meter.Cycle = &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 1, Zone: zone(then)}
			p.Meter.Retain = 12
			w := newWorld(t, p)
			for days := range limit.Time(4) {
				w.must(origin+days*limit.Time(20*day), checkOf("p", "ann", 1))
			}
			w.policies = revised(p, func(p *policy.Policy) {
				if p.Meter = nil; now != "" {
					p.Meter = billed().Meter
					p.Meter.Cycle = &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 1, Zone: zone(now)}
				}
			})
			at := origin + limit.Time(61*day)
			for period, units := range map[string]uint64{"2025-12": 0, "2026-01": 2, "2026-02": 1, "2026-03": 1,
				"2026-04": 0, "2026": 4, "2026-02-01": 1} {
				got := uint64(0)
				for _, u := range w.bills(at, UsageQuery{Starts: period}) {
					got += u.Units
				}
				if got != units {
					t.Errorf("from %s to %q: %s has %d units, want %d", then, now, period, got, units)
				}
			}
			w.correct(at+1, correctionOn("ann", "calls", "2026-02", 5))
			for _, u := range w.bills(at+2, UsageQuery{}) {
				if want := map[bool]int64{true: 5}[u.Start > origin+limit.Time(25*day) &&
					u.Start < origin+limit.Time(28*day)]; u.Corrections != want {
					t.Errorf("from %s to %q: the period from %d has corrections of %d",
						then, now, u.Start, u.Corrections)
				}
			}
		}
	}
}
