package shard

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Prints are stored in clients' ids and in records.
func TestPrintsNeverChange(t *testing.T) {
	for name, want := range map[string]LimitPrint{"": 0xe999, "minute": 705, "account-15m": 0xf120} {
		if got := printOf(name); got != want {
			t.Errorf("%q stands as %#x, want %#x", name, got, want)
		}
	}
}

func TestTakenIsWhatWasCountedAndByWhom(t *testing.T) {
	prints := func(names ...string) (prints []LimitPrint) {
		for _, name := range names {
			prints = append(prints, printOf(name))
		}
		return prints
	}
	entry := func(p string, cost uint64) Entry { return Entry{Policy: p, Key: "k", Cost: cost} }
	inline := entry("p", 5)
	inline.Limits = []policy.Limit{{Name: "x"}, {Name: "y"}}
	with := func(e Entry, cost uint64, names ...string) Entry {
		e.Cost, e.Counted = cost, prints(names...)
		return e
	}
	status := func(p, l string, allowed bool) LimitStatus {
		s := LimitStatus{Policy: p, Key: "k", Limit: l, Shadow: !allowed}
		s.Allowed = allowed
		return s
	}
	running := status("p", "running", true)
	running.Uncounted = true
	granted := status("p", "a", true)
	granted.Granted = 3
	for name, c := range map[string]struct {
		r        Request
		statuses []LimitStatus
		want     []Entry
	}{
		"not what a limit in shadow denied": {Request{Op: Check, Entries: []Entry{entry("p", 5), entry("q", 6)}},
			[]LimitStatus{status("p", "a", true), status("p", "b", false), status("q", "b", true)},
			[]Entry{with(entry("p", 5), 5, "a"), with(entry("q", 6), 6, "b")}},
		"Count counts all the same": {Request{Op: Count, Entries: []Entry{entry("p", 5)}},
			[]LimitStatus{status("p", "a", false), status("p", "b", true), running},
			[]Entry{with(entry("p", 5), 5, "a", "b")}},
		"nothing is running": {Request{Op: Check, Entries: []Entry{entry("p", 5)}},
			[]LimitStatus{running, status("p", "a", true)}, []Entry{with(entry("p", 5), 5, "a")}},
		"what was granted": {Request{Op: Partial, Entries: []Entry{entry("p", 5)}},
			[]LimitStatus{status("p", "b", false), granted}, []Entry{with(entry("p", 5), 3, "a")}},
		"a hold knows for itself": {Request{Op: Reserve, Entries: []Entry{entry("p", 5), entry("q", 5)}},
			[]LimitStatus{status("p", "a", true)}, []Entry{entry("p", 5), entry("q", 5)}},
		"statuses that did not come": {Request{Op: Check,
			Entries: []Entry{entry("p", 5), entry("q", 6), entry("o", 7)}},
			[]LimitStatus{status("q", "b", true)},
			[]Entry{entry("p", 5), with(entry("q", 6), 6, "b"), entry("o", 7)}},
		"a label that is a policy's name": {Request{Op: Check, Entries: []Entry{entry("p", 5), inline}},
			[]LimitStatus{status("p", "a", true), status("p", "x", false), status("p", "y", true)},
			[]Entry{with(entry("p", 5), 5, "a"), with(inline, 5, "y")}},
		"and the other way round": {Request{Op: Check, Entries: []Entry{inline, entry("p", 5)}},
			[]LimitStatus{status("p", "x", false), status("p", "y", true), status("p", "a", true)},
			[]Entry{with(inline, 5, "y"), with(entry("p", 5), 5, "a")}},
	} {
		d := Decision{Allowed: true, Index: 1, DecidedAt: origin, Limits: c.statuses}
		got := Taken(&c.r, &d)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
		sealer := NewSealer(1, SealingSecret{1, testSecret})
		target := Target{Hold: c.r.Op == Reserve, Index: 1, DecidedAt: origin}
		if id := sealer.ID(&c.r, &d, 0); id != sealer.Seal(target, "", got) {
			t.Errorf("%s: the id says something else", name)
		}
	}
}

// TestLimitsThatCannotBeToldApartGetNothingBack: of two names with one print, one may not have counted the decision.
func TestLimitsThatCannotBeToldApartGetNothingBack(t *testing.T) {
	seen := map[LimitPrint]string{}
	var one, other string
	for i := 0; other == ""; i++ {
		name := fmt.Sprint("limit-", i)
		one, seen[printOf(name)] = seen[printOf(name)], name
		if one != "" {
			other = name
		}
	}
	p := onePolicy(lifetimeOf(100), lifetimeOf(100), lifetimeOf(4))
	p.Limits[1].Name, p.Limits[2].Name, p.Limits[2].Shadow = one, other, true
	w := newWorld(t, p)
	w.must(origin, checkOf("p", "k", 3))
	r := checkOf("p", "k", 2)
	d := w.must(origin+1, r)
	w.wantUsed(origin+1, "p", "k", 5, 5, 3)
	w.must(origin+2, settleOf(r, d, Settlement{Action: ActionCancel}))
	w.wantUsed(origin+2, "p", "k", 3, 5, 3)
}

// TestADecisionOfWhichNobodyKnowsWhatCountedItIsNotGivenBack: but it is settled.
func TestADecisionOfWhichNobodyKnowsWhatCountedItIsNotGivenBack(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(10)))
	r := checkOf("p", "k", 2)
	s := settleOf(r, w.must(origin, r), Settlement{Action: ActionCancel})
	s.Entries = r.Entries
	w.must(origin+1, s)
	w.wantUsed(origin+1, "p", "k", 2)
}

// A policy with a longer retention than before has already forgotten earlier records: a decision that was refunded
// before is not refunded again, nor is one that was too old already.
func TestALongerRetentionBringsNoRefundBack(t *testing.T) {
	with := func(retention limit.Span) *policy.Policy {
		p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: day})
		p.Retention = retention
		return p
	}
	w := newWorld(t, with(10*minute))
	sealer := NewSealer(1, SealingSecret{1, testSecret})
	check := checkOf("p", "k", 5)
	results, _ := w.batch(origin+1, check, check)
	refund, err := sealer.Open(sealer.ID(&check, &results[0].Decision, 10*minute))
	if err != nil {
		t.Fatal(err)
	}
	refund.Settlement.Action = ActionCancel
	used := func(now limit.Time) uint64 {
		look := check
		look.Op = Get
		results, _ := w.batch(now, look)
		return results[0].Decision.Limits[0].Used
	}
	if w.batch(origin+2, refund); used(origin+3) != 5 {
		t.Fatal("the refund gave nothing back")
	}
	w.policies = policy.NewSet([]*policy.Policy{with(2 * hour)})
	late, _ := w.batch(origin+limit.Time(10*minute)+10, refund)
	if late[0].Err == nil || late[0].Err.Code != HoldEnded || used(origin+limit.Time(11*minute)) != 5 {
		t.Errorf("the second refund: %+v", late[0])
	}
}
