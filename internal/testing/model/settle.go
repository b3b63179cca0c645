package model

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// settle ends a hold or gives back a decision, once.
func (h *History) settle(d *Decided, all []*openCharge) (Answer, Refusal) {
	now, s := d.Place.At, d.Settlement
	if before, known := h.ended[s.Target]; known && now < before.until {
		if before.action != s.shown() {
			return Answer{}, HoldEnded
		}
		answer := before.answer
		answer.Replayed = true
		return answer, NotRefused
	}
	shortest, longest := h.retentions(d)
	until := now + limit.Time(longest)
	if !s.Target.Hold {
		until = s.Target.Place.At + limit.Time(shortest)
	}
	if !s.open(all) || until <= now {
		return Answer{}, HoldEnded
	}
	for _, a := range all {
		if !s.Target.Hold { // regardless of the id, which may be wrong
			a.Cost = h.taken[s.Target][a.address()].units
		}
	}
	if s.Action == Commit && s.Overage == Reject && !s.excessFits(all, now) {
		return Answer{}, OverQuota
	}
	answer := Answer{Place: d.Place, Allowed: true, Index: h.next()}
	for i, a := range all {
		a.settle(s, i, h.taken[s.Target][a.address()].by, now, &answer)
	}
	h.keep(all, now)
	for _, a := range h.open(d, now) {
		for i := range a.limits {
			answer.Limits = append(answer.Limits, a.status(i, now, h.searches()))
		}
	}
	if s.Action != Extend {
		h.ended[s.Target] = ended{action: s.shown(), until: until} // compare adds the answer
	}
	return answer, NotRefused
}

// shown is the text by which two actions are compared.
func (s *Settlement) shown() string {
	return fmt.Sprint(s.Action, s.Actual == nil, s.Actual, s.Overage, s.TTL)
}

// open reports whether the hold is in all of its counters. A decision need not be in any.
func (s *Settlement) open(all []*openCharge) bool {
	for _, a := range all {
		found := false
		for _, hold := range a.counter.holds {
			found = found || hold.name == s.Target
		}
		if s.Target.Hold && !found {
			return false
		}
	}
	return true
}

// actual is the units that an entry spent in the end.
func (s *Settlement) actual(i int, taken uint64) uint64 {
	if s.Actual == nil {
		return taken
	}
	return s.Actual[i]
}

// excess is the units that an entry spent above what it took.
func (s *Settlement) excess(i int, a *openCharge) uint64 {
	return max(s.actual(i, a.Cost), a.Cost) - a.Cost
}

// excessFits reports whether every limit that can deny has room for the spending above the hold.
func (s *Settlement) excessFits(all []*openCharge, now limit.Time) bool {
	for i, a := range all {
		if excess := s.excess(i, a); excess > 0 && excess > a.room(now, excess) {
			return false
		}
	}
	return true
}

// settle applies the settlement to one counter. countedBy names the limits that counted a decision.
func (a *openCharge) settle(s *Settlement, i int, countedBy []string, now limit.Time, answer *Answer) {
	h, ofHold := a.counter.takeHold(s.Target)
	giveBack := func(units uint64) {
		if ofHold {
			a.counter.cancel(h, units, now)
		} else {
			a.counter.refund(units, countedBy, s.Target.Place.At, now)
		}
		a.counter.bill.giveBack(a.policy, units, s.Target.Place.At, now)
	}
	if s.Action == Extend {
		h.expires = now + limit.Time(s.TTL)
		answer.HoldExpires = h.expires
		a.counter.holds = append(a.counter.holds, h)
		return
	}
	if ofHold {
		a.counter.release(h, now)
	}
	switch s.Action {
	case Cancel, Success:
		giveBack(a.Cost)
		if s.Action == Success {
			a.counter.deeds = append(a.counter.deeds, deed{kind: succeeded, at: now, rules: a.policy.Lockout})
		}
	case Failed:
		a.counter.violate(a.policy.Lockout, now)
	case Commit:
		if actual := s.actual(i, a.Cost); actual < a.Cost {
			giveBack(a.Cost - actual)
		}
		a.spend(s.excess(i, a), s.Overage, now)
	}
}

// spend counts the spending above what was taken.
func (a *openCharge) spend(excess uint64, overage Overage, now limit.Time) {
	if overage == Clamp {
		excess = a.room(now, excess)
	}
	if excess == 0 {
		return
	}
	a.counter.bill.add(a.policy, excess, now)
	for i, l := range a.limits {
		if l.Algorithm != limit.Concurrency {
			a.counting(i, now, func(m *Model) { m.memory.count(excess, now) })
		}
	}
}
