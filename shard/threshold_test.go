package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// noted returns a policy with one limit that has thresholds, and a sink.
func noted(l limit.Limit, thresholds ...policy.Threshold) *policy.Policy {
	p := onePolicy(l)
	p.Limits[0].Thresholds = thresholds
	p.Notify = []string{"billing"}
	return p
}

func percent(n uint32) policy.Threshold { return policy.Threshold{Percent: n} }
func units(n uint64) policy.Threshold   { return policy.Threshold{Units: n} }

// events returns a list of the shard's events.
func (w *world) events(list EventList) []Event {
	w.Helper()
	page, err := ReadEvents(w, EventsQuery{List: list})
	if err != nil || page.More {
		w.Fatalf("%v, more: %v", err, page.More)
	}
	return page.Events
}

// fired returns the thresholds in units of all waiting events, in order.
func (w *world) fired() (units []uint64) {
	w.Helper()
	for _, e := range w.events(EventsWaiting) {
		units = append(units, e.Units)
	}
	return units
}

func (w *world) mustHaveFired(units ...uint64) {
	w.Helper()
	if got := w.fired(); !slices.Equal(got, units) {
		w.Fatalf("fired %v, must be %v", got, units)
	}
}

// A threshold fires in the entry of the decision that crosses it, once in its window.
func TestAThresholdFiresOnceInItsWindow(t *testing.T) {
	w := newWorld(t, noted(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}, percent(80),
		percent(100), units(5)))
	w.batch(origin+1, checkOf("p", "k", 4))
	w.mustHaveFired()
	results, _ := w.batch(origin+2, checkOf("p", "k", 5)) // from 4 to 9
	w.mustHaveFired(8, 5)
	w.batch(origin+3, Request{Op: Settle, Namespace: "default",
		Entries: Taken(&Request{Entries: checkOf("p", "k", 5).Entries}, &results[0].Decision),
		Settlement: &Settlement{Action: ActionCancel,
			Target: Target{Position: results[0].Decision.Position, Index: 1, DecidedAt: origin + 2}}})
	w.batch(origin+4, checkOf("p", "k", 5))
	w.mustHaveFired(8, 5) // crossed again after a refund
	w.batch(origin+5, checkOf("p", "k", 9))
	w.mustHaveFired(8, 5) // a denial fires nothing
	w.batch(origin+6, checkOf("p", "k", 1))
	w.mustHaveFired(8, 5, 10)
	w.batch(origin+limit.Time(hour), checkOf("p", "k", 10))
	w.mustHaveFired(8, 5, 10, 8, 10, 5)
	e := w.events(EventsWaiting)[0]
	if e.Used != 9 || e.Quota != 10 || e.Start != origin || e.End != origin+limit.Time(hour) || e.Policy != "p" ||
		e.Key != "k" || e.Limit != "a" || e.At != origin+2 || e.Threshold != percent(80) ||
		!slices.Equal(e.Sinks, []string{"billing"}) {
		t.Errorf("%+v", e)
	}
}

// A changed threshold, and a share of a quota that was raised, is another one. The same number of units is the same
// one.
func TestAChangedThresholdFiresAgain(t *testing.T) {
	w := newWorld(t, noted(limit.Limit{Algorithm: limit.Calendar, Quota: 10, Cycle: dayCycle()}, percent(80)))
	w.must(origin+1, checkOf("p", "k", 8))
	w.mustHaveFired(8)
	w.policies = policy.NewSet([]*policy.Policy{
		noted(limit.Limit{Algorithm: limit.Calendar, Quota: 10, Cycle: dayCycle()}, units(8), percent(90))})
	w.must(origin+2, checkOf("p", "k", 1))
	w.mustHaveFired(8, 9)
	quota := uint64(20)
	w.must(origin+3, Request{Op: PutOverride, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}},
		Adjustment: &Adjustment{Actor: "ann",
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}})
	w.mustHaveFired(8, 9) // new numbers cross nothing
	w.must(origin+4, checkOf("p", "k", 8))
	w.mustHaveFired(8, 9)
	w.must(origin+5, checkOf("p", "k", 1))
	w.mustHaveFired(8, 9, 18)
	w.must(origin+6, Request{Op: Reset, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}})
	w.must(origin+7, checkOf("p", "k", 20))
	w.mustHaveFired(8, 9, 18) // crossed again after a reset
	w.must(origin+limit.Time(day), checkOf("p", "k", 20))
	w.mustHaveFired(8, 9, 18, 8, 18)
}

func dayCycle() *limit.Cycle { return &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zones[0]} }

// A restore keeps marks and events. A crossing that it has lost has the same id when it comes again.
func TestARestoreKeepsEventsAndIDs(t *testing.T) {
	w := newWorld(t, noted(lifetimeOf(100), units(5), units(8)))
	w.must(origin+1, checkOf("p", "k", 6))
	backup := w.backup()
	w.must(origin+2, checkOf("p", "k", 4))
	lost := w.events(EventsWaiting)
	w.goBack(backup, origin+limit.Time(hour))
	w.mustHaveFired(5)
	w.must(origin+limit.Time(hour)+1, checkOf("p", "k", 1))
	w.mustHaveFired(5)
	w.must(origin+limit.Time(hour)+2, checkOf("p", "k", 1))
	w.mustHaveFired(5, 8)
	for i, e := range w.events(EventsWaiting) {
		if e.ID("ledger") != lost[i].ID("ledger") || e.ID("another") == e.ID("ledger") {
			t.Errorf("%+v has another id than %+v", e, lost[i])
		}
	}
}

// Held units count, once they are taken; a tier that lifts a limit has no shares of it; events of a limit in shadow are
// marked.
func TestWhatFiresAThreshold(t *testing.T) {
	p := noted(limit.Limit{Algorithm: limit.SlidingLog, Quota: 10, Period: hour}, percent(50), units(6))
	p.Limits[0].Shadow = true
	p.Tiers = map[string]policy.Tier{"free": {Unlimited: true}}
	w := newWorld(t, p)
	r := reserveOf(Entry{Policy: "p", Key: "held", Cost: 5})
	w.must(origin+1, r)
	w.mustHaveFired(5)
	if e := w.events(EventsWaiting)[0]; !e.Shadow || e.Start != origin || e.End != origin+limit.Time(hour) {
		t.Errorf("%+v", e)
	}
	lifted := checkOf("p", "lifted", 9)
	lifted.Entries[0].Tier = "free"
	w.must(origin+2, lifted)
	w.mustHaveFired(5, 6)
	if e := w.events(EventsWaiting)[1]; e.Quota != 0 {
		t.Errorf("%+v", e)
	}
	w.must(origin+3, Request{Op: SetUsed, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "set", Cost: 1}},
		Adjustment: &Adjustment{Amount: 5}})
	w.mustHaveFired(5, 6, 5)
	if results, _ := w.batch(origin+4, Request{Op: Peek, Namespace: "default",
		Entries: checkOf("p", "peek", 9).Entries}); results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	w.mustHaveFired(5, 6, 5)
}

// More marks than a counter keeps: the oldest are forgotten, and the record stays bounded.
func TestMarksAreBounded(t *testing.T) {
	c := &counter{key: "k", policy: inlinePolicy}
	for i := range 3 * marksMost {
		m := mark{limit: "a", units: uint64(i + 1), ends: limit.Forever}
		c.marks = marks(m.append(c.marks)).tidy(origin)
	}
	if c.marks.has("a", 2*marksMost, origin, limit.Forever) || !c.marks.has("a",
		2*marksMost+1, origin, limit.Forever) || !c.marks.has("a", 3*marksMost, origin, limit.Forever) {
		t.Error("not the newest are kept")
	}
}

// BenchmarkThresholds measures a decision with thresholds that it does not cross beside one without any: the work of an
// owner and of a replica, as BenchmarkBatch does. "marked": one has fired before, so the record has its mark.
func BenchmarkThresholds(b *testing.B) {
	on := func() *policy.Policy { return noted(windowLimit, percent(80), percent(100), units(1<<39)) }
	marked := on()
	marked.Limits[0].Thresholds[2] = units(1)
	for _, c := range []struct {
		name   string
		policy *policy.Policy
	}{{"off", onePolicy(windowLimit)}, {"on", on()}, {"marked", marked}} {
		for _, size := range []int{1, 256} {
			b.Run(fmt.Sprintf("%s/batch=%d", c.name, size), func(b *testing.B) {
				benchBatch(b, c.policy, 100, size, never)
			})
		}
	}
}

// A Get tells which thresholds are silent, and until when: also after a refund or a reset, and as long as their windows
// last.
func TestGetTellsWhatHasFired(t *testing.T) {
	p := noted(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}, percent(80), percent(100), units(5))
	p.Limits = append(p.Limits, policy.Limit{Name: "ever", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 100},
		Thresholds: []policy.Threshold{units(2)}})
	w := newWorld(t, p)
	get := Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}}
	start := origin - origin%limit.Time(hour)
	fired := func(unit uint64, percent uint32) FiredThreshold {
		return FiredThreshold{Policy: "p", Limit: "a", Key: "k", Units: unit, Percent: percent, Starts: start,
			Ends: start + limit.Time(hour)}
	}
	ever := FiredThreshold{Policy: "p", Limit: "ever", Key: "k", Units: 2, Ends: limit.Forever}
	must := func(at limit.Time, want ...FiredThreshold) {
		t.Helper()
		results, _ := w.batch(at, get)
		if r := results[0]; r.Err != nil || !slices.Equal(r.Decision.Answer().Fired, want) ||
			want == nil && r.Decision.System != nil {
			t.Errorf("at %d: %v, %+v, want %+v", at-origin, r.Err, r.Decision.Answer().Fired, want)
		}
	}
	must(origin + 1)
	w.batch(origin+2, checkOf("p", "k", 1))
	must(origin + 3)
	w.batch(origin+4, checkOf("p", "k", 8))
	must(origin+5, fired(8, 80), fired(5, 0), ever)
	w.batch(origin+6, Request{Op: Reset, Namespace: "default", Entries: get.Entries,
		Adjustment: &Adjustment{Actor: "jo"}})
	must(origin+7, fired(8, 80), fired(5, 0), ever)
	results, _ := w.batch(origin+8, checkOf("p", "k", 1))
	if d := results[0].Decision; d.System != nil {
		t.Errorf("a check tells it too: %+v", d.System)
	}
	must(start+limit.Time(hour), ever)

}

// A window that begins at its first hit may end early, by a refund or a reset: the next one is silent as long as Get
// says so.
func TestAThresholdIsSilentWhileGetSaysSo(t *testing.T) {
	w := newWorld(t, noted(limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 10, Period: hour}, units(5)))
	w.must(origin, checkOf("p", "k", 6))
	w.must(origin+limit.Time(minute), Request{Op: Reset, Namespace: "default", Entries: checkOf("p", "k", 1).Entries})
	w.must(origin+limit.Time(2*minute), checkOf("p", "k", 6))
	w.mustHaveFired(5)
	d := w.must(origin+limit.Time(3*minute), Request{Op: Get, Namespace: "default",
		Entries: checkOf("p", "k", 1).Entries})
	if fired := d.Answer().Fired; len(fired) != 1 || fired[0].Ends != origin+limit.Time(hour) {
		t.Errorf("Get says %+v", fired)
	}
	w.must(origin+limit.Time(hour)+limit.Time(minute),
		Request{Op: Reset, Namespace: "default", Entries: checkOf("p", "k", 1).Entries})
	w.must(origin+limit.Time(hour)+limit.Time(2*minute), checkOf("p", "k", 6))
	w.mustHaveFired(5, 5)
}

// A limit for ever, or of a long window, that becomes one of an hour fires in each hour, whatever it has fired before.
func TestAThresholdFiresInTheWindowsOfNewNumbers(t *testing.T) {
	for _, before := range []limit.Limit{{Algorithm: limit.Lifetime, Quota: 10},
		{Algorithm: limit.FixedWindow, Quota: 10, Period: 1000 * hour}} {
		p := noted(before, units(5))
		w := newWorld(t, p)
		w.must(origin, checkOf("p", "k", 6))
		w.mustHaveFired(5)
		w.policies = revised(p, func(p *policy.Policy) {
			p.Limits[0].Limit = limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}
		})
		w.must(origin+1000*limit.Time(hour), checkOf("p", "k", 1)) // what is used still counts in this hour
		for again := range limit.Time(2) {
			w.must(origin+(1001+again)*limit.Time(hour), checkOf("p", "k", 6))
		}
		w.mustHaveFired(5, 5, 5)
	}
}
