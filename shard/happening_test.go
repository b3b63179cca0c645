package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// happen decides some requests at once, and returns what that has brought about.
func (w *world) happen(at limit.Time, requests ...Request) (all []string) {
	w.Helper()
	stamp := w.next(at)
	results, puts := Evaluate(w, w.policies, requests, stamp)
	for i := range results {
		if results[i].Err != nil {
			w.Fatal(results[i].Err)
		}
	}
	for _, h := range Happenings(w, puts, stamp) {
		if h.At != at {
			w.Errorf("%+v is not of %d", h, at)
		}
		what := ""
		switch {
		case h.Fired != nil:
			what = fmt.Sprintf("%s %d %d%%", h.Fired.Limit, h.Fired.Units, h.Fired.Percent)
		case h.Lockout != nil:
			what = fmt.Sprintf("level %d for %d s", h.Lockout.Level, (h.Lockout.Until-at)/1e6)
		case h.Change != nil:
			what = h.Change.Deed + " by " + h.Change.Actor
		}
		all = append(all, fmt.Sprintf("%s/%s/%s %s", h.Namespace, h.Policy, h.Key, what))
	}
	w.append(EncodeBatch(stamp, puts))
	return all
}

// Each threshold that fires, each block that a ladder begins and each change by hand is reported in the batch that
// makes it, and in no other.
func TestWhatABatchBringsAboutIsToldOnce(t *testing.T) {
	p := noted(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}, percent(50), units(7))
	locked := onePolicy(lifetimeOf(1000))
	locked.Name = "login"
	locked.Lockout = &policy.Lockout{After: 2, Base: 10e6, Factor: 3, Max: hour, ForgiveAfter: 24 * hour}
	w := newWorld(t, p, locked)
	must := func(at limit.Time, requests []Request, want ...string) {
		t.Helper()
		if got := w.happen(at, requests...); !slices.Equal(got, want) {
			t.Errorf("at %d: %q, want %q", at-origin, got, want)
		}
	}
	failed := func(at limit.Time, want ...string) {
		t.Helper()
		reserve := reserveOf(Entry{Policy: "login", Key: "eve", Cost: 1})
		must(at+1, []Request{settleOf(reserve, w.must(at, reserve), Settlement{Action: ActionFailed})}, want...)
	}
	must(origin+1, []Request{checkOf("p", "k", 4), checkOf("p", "l", 4)})
	must(origin+2, []Request{checkOf("p", "k", 4), checkOf("p", "l", 1)}, "default/p/k a 5 50%", "default/p/k a 7 0%",
		"default/p/l a 5 50%")
	must(origin+3, []Request{checkOf("p", "k", 1)})
	page := w.events(EventsWaiting)
	places := make([]EventPlace, 0, len(page))
	for i := range page {
		places = append(places, page[i].Place())
	}
	must(origin+4, []Request{AcknowledgeRequest(3, "billing", places)}) // they become past events
	must(origin+5, []Request{{Op: Reset, Namespace: "default", Entries: checkOf("p", "k", 1).Entries,
		Adjustment: &Adjustment{Actor: "jo"}}},
		"default/p/k reset by jo")
	failed(origin + 100)
	failed(origin+200, "default/login/eve level 1 for 10 s")
	must(origin+300, []Request{checkOf("login", "eve", 1)}) // denied
	// while the block lasts
	must(origin+301, []Request{{Op: AddUsed, Namespace: "default", Entries: checkOf("login", "eve", 1).Entries,
		Adjustment: &Adjustment{Actor: "jo", Amount: 1}}}, "default/login/eve add by jo")
	failed(origin+20_000_000, "default/login/eve level 2 for 30 s")
}
