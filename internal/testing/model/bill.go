package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// bill is everything that was ever billed on a counter: nothing is forgotten, not even units that are too old to be
// given back.
type bill struct {
	periods []Billed
	taken   map[limit.Time]string // by instant, the meter that billed the units taken then, or ""
}

// Billed is one period of a meter.
type Billed struct {
	Meter          string
	Start, End     limit.Time
	Final, Kept    limit.Time // from when it does not change, and until when it must be known
	Units, Credits uint64
	Corrections    int64
}

// Correction names a period by its meter, "" for the policy's, and by its start, 0 for the open one.
type Correction struct {
	Meter string
	Start limit.Time
}

func (b *bill) copied() bill {
	return bill{periods: slices.Clone(b.periods), taken: maps.Clone(b.taken)}
}

// add bills units admitted by a policy.
func (b *bill) add(p *policy.Policy, units uint64, now limit.Time) {
	if units == 0 {
		return
	}
	if b.taken == nil {
		b.taken = make(map[limit.Time]string)
	}
	b.taken[now] = ""
	if p.Meter != nil {
		b.taken[now] = p.Meter.Name
		b.open(p, p.Meter.Name, now).Units += units
	}
}

// giveBack takes units that were taken at an instant off the period of that instant, or makes them a credit of the
// period of now.
func (b *bill) giveBack(p *policy.Policy, units uint64, taken, now limit.Time) {
	meter := b.taken[taken]
	if units == 0 || meter == "" {
		return
	}
	for i := range b.periods {
		if one := &b.periods[i]; one.Meter == meter && one.Start <= taken && taken < one.End && now < one.Final {
			one.Units -= units
			return
		}
	}
	b.open(p, meter, now).Credits += units
}

// open returns the period of a meter that contains an instant.
func (b *bill) open(p *policy.Policy, meter string, now limit.Time) *Billed {
	last := -1
	for i := range b.periods {
		if b.periods[i].Meter == meter {
			last = i
		}
	}
	if last >= 0 && now < b.periods[last].End {
		return &b.periods[last]
	}
	one := Billed{Meter: meter}
	if m := p.Meter; m != nil && m.Name == meter {
		calendar := newPeriods(*m.Cycle)
		one.Start, one.End = calendar.period(now)
		one.Final = one.End + limit.Time(m.Grace)
		one.Kept = one.End
		for range m.Retain {
			_, one.Kept = calendar.period(one.Kept)
		}
		retention := (p.Retention + 1e6 - 1) / 1e6 * 1e6
		one.Kept = max(one.Kept, one.Final+one.End-one.Start, one.End+limit.Time(retention))
	} else {
		before := b.periods[last]
		for one = before; one.End <= now; {
			length := before.End - before.Start
			one = Billed{Meter: meter, Start: one.End, End: one.End + length, Final: one.Final + length,
				Kept: one.Kept + length}
		}
	}
	if last >= 0 {
		one.Start = max(one.Start, b.periods[last].End)
	}
	b.periods = append(b.periods, one)
	return &b.periods[len(b.periods)-1]
}

// correct adds units to the period that a person names, and reports whether there is one. If there is none, the bill
// does not change.
func (b *bill) correct(p *policy.Policy, which Correction, units int64, now limit.Time) bool {
	if which.Meter == "" {
		if p.Meter == nil {
			return false
		}
		which.Meter = p.Meter.Name
	}
	known := p.Meter != nil && p.Meter.Name == which.Meter
	for i := range b.periods {
		one := &b.periods[i]
		if one.Meter != which.Meter || one.Kept <= now {
			continue
		}
		if known = true; one.Start == which.Start {
			one.Corrections += units
			return true
		}
	}
	if !known {
		return false
	}
	open := b.open(p, which.Meter, now)
	open.Corrections += units
	return which.Start == 0 || which.Start == open.Start
}

// Bill returns all periods of a key under a policy as they are at an instant, in the order in which they began.
func (h *History) Bill(name, key string, at limit.Time) []Billed {
	known := h.counters[address{name, key}]
	if known == nil {
		return nil
	}
	c := known.copied()
	c.expire(h.policies[name], at)
	return c.bill.periods
}

// ForgetBill is called when a shard no longer knows a counter. It returns an error if the shard had to know a period.
// The policy under which the counter was written determines when the shard may forget, holds that have expired since
// included.
func (h *History) ForgetBill(name, key string, at limit.Time) error {
	known := h.counters[address{name, key}]
	if known == nil || len(known.bill.periods) == 0 {
		return nil
	}
	c := known.copied()
	c.expire(c.under, at)
	for _, one := range c.bill.periods {
		if one.Kept > at {
			return fmt.Errorf("the counter was forgotten with %+v", one)
		}
	}
	known.bill = bill{}
	return nil
}
