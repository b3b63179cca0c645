package shard

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// correctionOn returns a correction of a key's bill under policy p.
func correctionOn(key, meter, period string, units int64) Request {
	return Request{Op: CorrectUsage, Namespace: "default", Entries: []Entry{{Policy: "p", Key: key, Cost: 1}},
		System:     &SystemTerms{Correction: &Correction{Meter: meter, Period: period}},
		Adjustment: &Adjustment{Amount: units, Actor: "kim", Note: "double import"}}
}

// correct corrects a bill, and returns what the answer says of it.
func (w *world) correct(now limit.Time, r Request) Usage {
	w.Helper()
	d := w.must(now, r)
	u, ok := CorrectedBill(&r, &d)
	if !ok {
		w.Fatalf("the answer has no bill: %+v", d)
	}
	return u
}

// wantFigures compares what a reader sees of a key: hour of the start since origin, units, credits and corrections of
// each period.
func (w *world) wantFigures(at limit.Time, key string, want ...[4]int64) (all []Usage) {
	w.Helper()
	all = w.bills(at, UsageQuery{Key: key})
	var got [][4]int64
	for _, u := range all {
		got = append(got, [4]int64{int64(u.Start-origin) / int64(hour), int64(u.Units), int64(u.Credits),
			u.Corrections})
	}
	if !slices.Equal(got, want) {
		w.Errorf("the bill of %s at %v is %v, want %v", key, at-origin, got, want)
	}
	return all
}

// TestACorrectionIsAFigureOfItsOwn: of a period that is open, closed or final. Each has a revision of its own, and no
// limit moves.
func TestACorrectionIsAFigureOfItsOwn(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(10)))
	w.must(origin, checkOf("p", "ann", 7))
	revisions := []uint64{w.bills(origin, UsageQuery{Key: "ann"})[0].Revision}
	first := instantWords(origin)
	for i, at := range []limit.Time{origin + 1, origin + anHour, origin + anHour + limit.Time(minute)} {
		units := []int64{-20, 3, 4}[i]
		sum := []int64{-20, -17, -13}[i]
		u := w.correct(at, correctionOn("ann", "", first, units))
		seen := w.wantFigures(at, "ann", [4]int64{0, 7, 0, sum})
		if !reflect.DeepEqual(seen, []Usage{u}) {
			t.Errorf("the answer says %+v, and a list %+v", u, seen)
		}
		revisions = append(revisions, u.Revision)
	}
	if !slices.IsSorted(revisions) || len(slices.Compact(slices.Clone(revisions))) != 4 {
		t.Errorf("the revisions are %v", revisions)
	}
	at := origin + anHour + 2*limit.Time(minute)
	w.correct(at, correctionOn("ann", "", "", 5))
	w.wantFigures(at, "ann", [4]int64{0, 7, 0, -13}, [4]int64{1, 0, 0, 5})
	w.must(at+1, checkOf("p", "ann", 2))
	w.correct(at+2, correctionOn("ann", "calls", "", -5))
	w.wantFigures(at+2, "ann", [4]int64{0, 7, 0, -13}, [4]int64{1, 2, 0, 0})
	w.wantUsed(at+3, "p", "ann", 9)
	final, err := ReadFinalUsage(w.state, w.policies,
		FinalQuery{Through: w.state.Time(), Most: 9, Wants: func(string, string) bool { return true }})
	if err != nil || len(final.Periods) != 1 || final.Periods[0].Corrections != -13 {
		t.Errorf("what is pushed: %+v, %v", final.Periods, err)
	}
}

// TestACorrectionIsOnRecord: the actor, how many units, of which period, and why.
func TestACorrectionIsOnRecord(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(10)))
	w.must(origin, checkOf("p", "ann", 7))
	w.correct(origin+1, correctionOn("ann", "", "2026-01-05", -500))
	w.correct(origin+2, correctionOn("ann", "", "", 20))
	w.refused(origin+3, correctionOn("ann", "", "2025", 1))
	got := auditOf(w, origin+4)
	if len(got) != 2 {
		t.Fatalf("on record: %+v", got)
	}
	want := AuditRecord{At: origin + 2, Position: got[0].Position, Actor: "kim", Namespace: "default", Policy: "p",
		Key: "ann", Deed: "correct",
		Before: "calls from 2026-01-05T00:00:00Z: -500 in all",
		After:  "+20, calls from 2026-01-05T00:00:00Z: -480 in all", Note: "double import"}
	if got[0] != want {
		t.Errorf("on record: %+v", got)
	}
}

// TestACorrectionIsMadeOnce: under its id, in its session, and alone in its entry.
func TestACorrectionIsMadeOnce(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(10)))
	r := correctionOn("ann", "", "", -5)
	r.ID = "ticket"
	first := w.correct(origin, r)
	w.correct(origin+1, correctionOn("ann", "", "", 1))
	for n := range 2 {
		if d := w.must(origin+2+limit.Time(n), r); !d.Replayed {
			t.Error("it is made again")
		} else if again, ok := CorrectedBill(&r, &d); !ok || again != first {
			t.Errorf("it is answered with %+v, first it was %+v", again, first)
		}
	}
	w.wantFigures(origin+4, "ann", [4]int64{0, 0, 0, -4})
	for name, other := range map[string]Request{"units": correctionOn("ann", "", "", -6),
		"meter": correctionOn("ann", "calls", "", -5), "period": correctionOn("ann", "", "2026", -5)} {
		if other.ID = "ticket"; w.refused(origin+5, other).Code != IDReused {
			t.Errorf("its id is used for another %s", name)
		}
	}
	results, _ := w.batch(origin+6, correctionOn("bob", "", "", 1), correctionOn("bob", "", "", 2))
	if len(results) != 1 {
		t.Errorf("%d corrections have one revision", len(results))
	}

	opened := w.must(origin+7, Request{Op: OpenSession, Namespace: "default"})
	copied := correctionOn("cora", "", "", 9)
	copied.Session, copied.Number, copied.Retry = opened.Answer().Session, 1, true
	first = w.correct(origin+8, copied)
	w.correct(origin+9, correctionOn("cora", "", "", 1))
	if again := w.correct(origin+10, copied); again != first {
		t.Errorf("a copy is answered with %+v, first it was %+v", again, first)
	}
	w.wantFigures(origin+11, "cora", [4]int64{0, 0, 0, 10})
}

// TestAForgottenKeyIsInNoAnswerToACorrection: the record of an id has a number in the place of the key.
func TestAForgottenKeyIsInNoAnswerToACorrection(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(10)))
	r := correctionOn("ann@example.com", "", "", -5)
	r.ID = "ticket"
	w.correct(origin, r)
	w.must(origin+1, forgetOf("ann@example.com"))
	for key, record := range allRecords(w.state) {
		if strings.Contains(key+string(record.Value), "ann@") {
			t.Errorf("record %q names the key", key)
		}
	}
}

// TestWhatCannotBeCorrected names the field that is wrong, and changes nothing.
func TestWhatCannotBeCorrected(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.must(origin+2*anHour, checkOf("p", "ann", 2))
	now, n := origin+2*anHour, 0
	for _, c := range []struct {
		field, says string
		change      func(*Request)
	}{
		{"units", "are 0", func(r *Request) { r.Adjustment.Amount = 0 }},
		{"units", "1099511627776", func(r *Request) { r.Adjustment.Amount = MaxCorrection + 1 }},
		{"units", "1099511627776", func(r *Request) { r.Adjustment.Amount = -MaxCorrection - 1 }},
		{"note", "is missing", func(r *Request) { r.Adjustment.Note = "" }},
		{"note", "at most 512", func(r *Request) { r.Adjustment.Note = strings.Repeat("n", MaxNote+1) }},
		{"period", "a year, a month or a day",
			func(r *Request) { r.System = &SystemTerms{Correction: &Correction{Period: "october"}} }},
		{"period", "is kept for the key",
			func(r *Request) { r.System = &SystemTerms{Correction: &Correction{Period: "2025-12"}} }},
		{"period", "is kept for the key", func(r *Request) {
			r.System = &SystemTerms{Correction: &Correction{Period: instantWords(origin + anHour)}}
		}},
		{"period", "several start",
			func(r *Request) { r.System = &SystemTerms{Correction: &Correction{Period: "2026-01-05"}} }},
		{"meter", "neither the policy's",
			func(r *Request) { r.System = &SystemTerms{Correction: &Correction{Meter: "requests"}} }},
		{"entries[0].policy", "no policy is named",
			func(r *Request) { r.Entries = []Entry{{Policy: "q", Key: "ann", Cost: 1}} }},
		{"policy", "inline",
			func(r *Request) { r.Entries = []Entry{{Policy: "p", Key: "ann", Cost: 1, Limits: TallyLimits}} }},
		{"entries", "one key",
			func(r *Request) { r.Entries = []Entry{{Policy: "p", Key: "ann"}, {Policy: "p", Key: "bob"}} }},
		{"system", "run a newer one", func(r *Request) { r.System = nil }},
		{"system", "run a newer one", func(r *Request) { r.System = &SystemTerms{} }},
	} {
		r := correctionOn("ann", "", "", 5)
		c.change(&r)
		n++
		if err := w.refused(now+limit.Time(n), r); err.Code != Invalid && err.Code != PolicyNotFound ||
			err.Field != c.field || !strings.Contains(err.Message, c.says) || err.MaybeApplied() {
			t.Errorf("want %s: %s, got %s: %v", c.field, c.says, err.Field, err)
		}
	}
	w.wantFigures(now+20, "ann", [4]int64{0, 1, 0, 0}, [4]int64{2, 2, 0, 0})
	past := now + 2*anHour // the first period is kept no more
	if err := w.refused(past, correctionOn("ann", "", instantWords(origin), 5)); err.Field != "period" {
		t.Error(err)
	}
	w.correct(past+1, correctionOn("ann", "", instantWords(origin+2*anHour), 5))
	w.wantFigures(past+2, "ann", [4]int64{2, 2, 0, 5})
}

// TestCorrectionsHaveABound: their sum too, so that a debt can be shown.
func TestCorrectionsHaveABound(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	c := &counter{key: counterKeyOf("p", "ann"), policy: billed(lifetimeOf(1000)),
		meters: meters{{name: "calls", periods: []period{{start: origin,
			end: origin + anHour, grace: minute, keep: hour, units: maxBilled, corrections: maxCorrected - 5,
			revised: origin}}}}}
	p, _ := c.appendTo(nil, origin)
	w.state.table.Put(p.Key, p.Record)
	if err := w.refused(origin+1, correctionOn("ann", "", "", 6)); err.Field != "units" ||
		!strings.Contains(err.Message, "in all") {
		t.Error(err)
	}
	w.correct(origin+2, correctionOn("ann", "", "", 5))
	w.wantFigures(origin+2, "ann", [4]int64{0, maxBilled, 0, maxCorrected})
}

// TestAFullShardTakesNoCorrectionOfANewKey, and a brimful one takes none at all.
func TestAFullShardTakesNoCorrectionOfANewKey(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.most = 1
	if err := w.refused(origin+1, correctionOn("bob", "", "", 1)); err.Code != MemoryFull {
		t.Error(err)
	}
	w.correct(origin+2, correctionOn("ann", "", "", 1))
	w.brim = true
	if err := w.refused(origin+3, correctionOn("ann", "", "", 1)); err.Code != MemoryFull {
		t.Error(err)
	}
	w.wantFigures(origin+3, "ann", [4]int64{0, 1, 0, 1})
}

// TestACorrectionSurvivesABackup: those that were made after it are gone, with the rest.
func TestACorrectionSurvivesABackup(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.correct(origin+1, correctionOn("ann", "", "", -3))
	now := origin + anHour + limit.Time(minute)
	w.must(now, checkOf("p", "ann", 1))
	backup := w.backup()
	w.correct(now+1, correctionOn("ann", "", instantWords(origin), -30))
	w.goBack(backup, now+limit.Time(second))
	w.wantFigures(now+limit.Time(second)+1, "ann", [4]int64{0, 1, 0, -3}, [4]int64{1, 1, 0, 0})
	w.correct(now+limit.Time(second)+2, correctionOn("ann", "", instantWords(origin), 5))
	w.wantFigures(now+limit.Time(second)+3, "ann", [4]int64{0, 1, 0, 2}, [4]int64{1, 1, 0, 0})
}

// TestTheBillOfAMeterThatIsGoneCanBeCorrected: by its name, as long as it is kept.
func TestTheBillOfAMeterThatIsGoneCanBeCorrected(t *testing.T) {
	with, without := billed(lifetimeOf(1000)), onePolicy(lifetimeOf(1000))
	with.Retention, without.Retention = hour, hour
	w := newWorld(t, with)
	w.must(origin, checkOf("p", "ann", 6))
	w.policies = policy.NewSet([]*policy.Policy{without})
	if err := w.refused(origin+1, correctionOn("ann", "", "", 1)); err.Field != "meter" {
		t.Error(err)
	}
	w.correct(origin+2, correctionOn("ann", "calls", "", -1))
	w.correct(origin+anHour, correctionOn("ann", "calls", "", -2))
	w.wantFigures(origin+anHour, "ann", [4]int64{0, 6, 0, -1}, [4]int64{1, 0, 0, -2})
	if err := w.refused(origin+10*anHour, correctionOn("ann", "calls", "", 1)); err.Field != "meter" {
		t.Error(err)
	}
}

// These bytes are stored in users' logs and snapshots, and bodies and pages are sent between nodes. A record without
// corrections is that of before.
func TestGoldenBytesOfCorrections(t *testing.T) {
	c := manyMeters()
	plain := c.encode(origin + 6).Value
	c.meters[0].periods[0].corrections, c.meters[0].periods[1].corrections = -500, 1<<40
	value := c.encode(origin + 6).Value
	page := UsagePage{Through: origin, Periods: []Usage{{Meter: "calls", Start: origin, End: origin + anHour,
		Final: origin + anHour + limit.Time(minute), Units: 300, Credits: 7, Corrections: -500,
		Revision: uint64(origin)}}}
	r := correctionOn("ann", "calls", "2026-01", -500)
	d := Decision{Allowed: true, Index: 1, DecidedAt: origin, Position: Position{3, 9, 300},
		System: &SystemAnswer{Usage: &page}}
	answer := encodeAnswer(&r, &d)
	golden(t, "testdata/correction.golden", fmt.Sprintf("counter\n  %x\npage\n  %x\ncorrection\n  %x\nanswer\n  %x\n",
		value, resultMessage(&Result{Decision: d}), requestMessage(&r), answer))

	back := counter{policy: inlinePolicy}
	if err := back.decode(value, nil); err != nil || !reflect.DeepEqual(back.meters, c.meters) {
		t.Errorf("%v: it came back as %+v", err, back.meters)
	}
	for n := range value {
		if err := (&counter{policy: inlinePolicy}).decode(value[:n], nil); err == nil {
			t.Errorf("%d of %d bytes are a counter", n, len(value))
		}
	}
	for i := range c.meters[0].periods {
		c.meters[0].periods[i].corrections = 0
	}
	if !reflect.DeepEqual(c.encode(origin+6).Value, plain) {
		t.Error("a period that was corrected back to 0 has more bytes than before")
	}
	again, same, err := decodeAnswer(answer, &r)
	if again.Replayed = false; err != nil || !same || !reflect.DeepEqual(again, d) {
		t.Errorf("%v: the answer came back as %+v", err, again)
	}
}

// TestAnUnreadableBillIsNotCorrected: nor does it begin again.
func TestAnUnreadableBillIsNotCorrected(t *testing.T) {
	w := newWorld(t, billed(lifetimeOf(1000)))
	w.must(origin, checkOf("p", "ann", 1))
	w.spoil(string(counterRecord))
	if err := w.refused(origin+1, correctionOn("ann", "", "", 1)); err.Code != Unreadable || err.MaybeApplied() {
		t.Error(err)
	}
}
