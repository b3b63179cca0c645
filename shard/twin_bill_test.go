package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/internal/model"
	"github.com/stint-io/stint/limit"
)

// judgeBills compares what a reader of the shard sees of all bills, at the instant of the newest batch, with the twin's. The twin
// keeps all periods, the shard those that are not too old.
func (r *run) judgeBills() {
	if r.level == LevelFirst || r.level == LevelSound || r.level == LevelTrust {
		return
	}
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
		if u := &got[j]; u.End != want.End || u.Final != want.Final || u.Units != want.Units || u.Credits != want.Credits {
			return fmt.Errorf("it is %+v, must be %+v", *u, *want)
		}
		r.met["billed"]++
		if want.Credits > 0 {
			r.met["credited after final"]++
		}
	}
	if met != len(got) {
		return fmt.Errorf("%+v are more than the twin's %+v", got, all)
	}
	return nil
}

// usage reads all pages at an instant.
func (r *run) usage(at limit.Time, q UsageQuery) (all []Usage) {
	b := batch{view: r.owner, policies: r.policies, at: Stamp{Position: r.stamp.Position, Now: at + 1, Level: LevelNewest}}
	for {
		request := UsageRequest("default", r.state.id, 16, q)
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
