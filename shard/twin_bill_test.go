package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
)

// judgeBills compares what a reader of the shard sees of all bills, at the instant of the newest batch, with the
// twin's. The twin keeps all periods, the shard those that are not too old.
func (r *run) judgeBills() {
	got := map[string][]Usage{}
	for _, u := range r.usage(r.now, UsageQuery{}) {
		got[u.Policy+"/"+u.Key] = append(got[u.Policy+"/"+u.Key], u)
	}
	for _, name := range r.policies.Names() {
		for _, key := range []string{"k0", "k1", "k2"} {
			if err := r.judgeBill(got[name+"/"+key], r.history.Bill(name, key, r.now)); err != nil {
				panic(fmt.Errorf("at %d: the bill of %s for %s: %w", r.now-origin, key, name, err))
			}
		}
	}
}

// forgetBills tells the twin which bills the shard has forgotten by now.
func (r *run) forgetBills() {
	for _, name := range r.policies.Names() {
		for _, key := range []string{"k0", "k1", "k2"} {
			if record, found := r.owner.Lookup(counterKeyOf(name, key)); found && record.ForgetAt > r.now {
				continue
			}
			if err := r.history.ForgetBill(name, key, r.now); err != nil {
				panic(fmt.Errorf("at %d: the bill of %s for %s: %w", r.now-origin, key, name, err))
			}
		}
	}
}

func (r *run) judgeBill(got []Usage, all []model.Billed) error {
	met := 0
	for i := range all {
		want := &all[i]
		if !slices.Contains(r.instants, want.End) {
			r.instants = append(r.instants, want.End, want.Final)
		}
		j := slices.IndexFunc(got, func(u Usage) bool { return u.Meter == want.Meter && u.Start == want.Start })
		if j < 0 && want.Kept > r.now {
			return fmt.Errorf("%+v is not known: %+v", *want, got)
		}
		if j < 0 {
			continue
		}
		met++
		if u := &got[j]; u.End != want.End || u.Final != want.Final || u.Units != want.Units ||
			u.Credits != want.Credits || u.Corrections != want.Corrections {
			return fmt.Errorf("it is %+v, must be %+v", *u, *want)
		}
		r.met["billed"]++
		if want.Credits > 0 {
			r.met["credited after final"]++
		}
		if want.Corrections != 0 {
			r.met["corrected"]++
		}
	}
	if met != len(got) {
		return fmt.Errorf("%+v are more than the twin's %+v", got, all)
	}
	return nil
}

// usage reads all pages at an instant.
func (r *run) usage(at limit.Time, q UsageQuery) (all []Usage) {
	b := batch{view: r.owner, policies: r.policies, at: Stamp{Position: r.stamp.Position, Now: at + 1}}
	for {
		request := UsageRequest("default", r.state.id, q)
		result := b.usage(&request)
		if result.Err != nil {
			panic(result.Err)
		}
		page, err := UsageOf("default", &result.Decision)
		if err != nil || page.Through != at {
			panic(fmt.Errorf("a page through %d, %w", page.Through, err))
		}
		all = append(all, page.Periods...)
		if q.From = page.Next; q.From == (UsagePlace{}) {
			return all
		}
	}
}

// correction fills in the period: the open one, one that the bill has or had, or one that was never billed. Its meter
// is the policy's, or another that the policy has or had.
func (r *run) correction(w *wish, q Request) Request {
	if n := len(r.corrects); n > 0 && w.pick%3 == 0 {
		return r.adjustable(r.corrects[n-1-w.pick/3%min(n, 2)])
	}
	which := model.Correction{Meter: []string{"", "", "b0", "b1"}[w.pick%4]}
	if periods := r.history.Bill(q.Entries[0].Policy, q.Entries[0].Key, r.now); w.pick/4%3 > 0 && len(periods) > 0 {
		one := periods[len(periods)-1-w.pick/12%min(len(periods), 4)]
		which = model.Correction{Meter: one.Meter, Start: one.Start}
		if w.pick/48%16 == 0 {
			which.Start -= 60e6
		}
	}
	period := ""
	if which.Start != 0 {
		period = instantWords(which.Start)
	}
	q.System = &SystemTerms{Correction: &Correction{Meter: which.Meter, Period: period}}
	if q.ID != "" {
		r.corrects = append(r.corrects, q)
	}
	return q
}

// correctionOf reads the period that a correction names.
func correctionOf(q *Request) *model.Correction {
	which := &model.Correction{Meter: q.System.Correction.Meter}
	if at, err := time.Parse(time.RFC3339, q.System.Correction.Period); err == nil {
		which.Start = limit.Time(at.UnixMicro())
	}
	return which
}

// judgeCorrection compares the bill in an answer with the twin's. A replay has the bill of its time.
func (r *run) judgeCorrection(q *Request, d *Decision) error {
	u, ok := CorrectedBill(q, d)
	if !ok {
		return fmt.Errorf("the answer has no bill")
	}
	if d.Replayed {
		r.met["corrected once"]++
		return nil
	}
	if u.Final <= r.now {
		r.met["corrected after final"]++
	}
	return r.judgeBill([]Usage{u}, slices.DeleteFunc(r.history.Bill(u.Policy, u.Key, r.now),
		func(one model.Billed) bool {
			return one.Meter != u.Meter || one.Start != u.Start
		}))
}
