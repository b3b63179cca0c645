package model

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// openCharge is one charge of a request, with the working copy of its counter.
type openCharge struct {
	Charge
	policy  *policy.Policy
	limits  []policy.Limit // under the tier and the override
	counter *counter
	granted uint64  // what it takes if it is admitted; set by judge
	admits  []bool  // by limit, before anything was counted
	crossed []Fired // until fire records them
	changed bool    // numbers have changed before the request, or an override has ended
	alone   bool    // the question is about one limit, independently of holds and override
}

// open makes working copies of a request's counters, on which everything due at an instant has ended. Reading a copy
// may carry a limit over to its current numbers, so a caller that only shows something opens its own copies.
func (h *History) open(d *Decided, at limit.Time) (all []*openCharge) {
	for _, c := range d.Charges {
		all = append(all, h.openOne(c, at))
	}
	return all
}

func (h *History) openOne(c Charge, at limit.Time) *openCharge {
	a := &openCharge{Charge: c, policy: h.policyOf(c)}
	if _, known := a.policy.Tiers[c.Tier]; !known { // what was taken under a tier that is gone is settled without one
		c.Tier = ""
	}
	a.counter = &counter{}
	if known := h.counters[c.address()]; known != nil {
		a.counter = known.copied()
	}
	if c.Inline != nil {
		a.counter.expire(a.policy, at)
	} else {
		a.changed = a.counter.bringUp(a.policy, c.Tier, h.revised, at)
	}
	a.limits = resolve(a.policy, c.Tier, a.counter.override)
	return a
}

// unknown reports whether the policy refuses the key because it has no override.
func (a *openCharge) unknown() bool {
	return a.Inline == nil && a.policy.UnknownKey == policy.UnknownKeyDeny && a.counter.override == nil
}

func (a *openCharge) shadowed(i int) bool { return a.policy.Shadow || a.limits[i].Shadow }

// soft reports whether a limit asks for a challenge instead of denying.
func (a *openCharge) soft(i int) bool { return a.limits[i].OnExceeded == policy.ExceededChallenge }

func (a *openCharge) blockedUntil(now limit.Time) limit.Time {
	return a.counter.blockedUntil(a.policy.Lockout, now)
}

// deniedUntil is the end of the last block, except those of a shadowed ladder: an operator's block always denies.
func (a *openCharge) deniedUntil(now limit.Time) limit.Time {
	if a.policy.Shadow {
		return byHandAt(a.counter.deeds)
	}
	return a.blockedUntil(now)
}

func (a *openCharge) at(i int, now limit.Time) *kept {
	return a.counter.at(&a.limits[i], a.policy, now)
}

// grants is how much an entry takes: for a Partial, as much as fits into every limit that can deny.
func (a *openCharge) grants(op Op, now limit.Time) uint64 {
	if op != Partial {
		return a.Cost
	}
	most := a.Cost
	for i, l := range a.limits {
		if !l.Unlimited && !a.shadowed(i) && l.Algorithm != limit.Unlimited {
			most = min(most, a.at(i, now).model.numbers(now).Remaining)
		}
	}
	return most
}

// looks reports whether the entry only looks for room for one unit, and takes nothing.
func (a *openCharge) looks() bool { return a.Cost == 0 }

// fits reports whether a limit admits the request.
func (a *openCharge) fits(op Op, i int, now limit.Time) bool {
	if a.limits[i].Unlimited {
		return true
	}
	return a.at(i, now).model.Admits(a.units(op, i), now)
}

// units is the amount that a limit must admit: for a Partial, one unit if the limit can deny.
func (a *openCharge) units(op Op, i int) uint64 {
	if op == Partial && !a.shadowed(i) {
		return 1
	}
	return max(a.granted, 1)
}

// least is the amount that an entry must have room for.
func (a *openCharge) least(op Op) uint64 {
	if op == Partial {
		return 1
	}
	return max(a.Cost, 1)
}

// room is how many of units fit into the entry's limits that can deny.
func (a *openCharge) room(now limit.Time, units uint64) uint64 {
	looked := *a
	looked.counter = a.counter.copied()
	for i, l := range a.limits {
		if l.Unlimited || a.shadowed(i) || l.Algorithm == limit.Unlimited || l.Algorithm == limit.Concurrency {
			continue
		}
		units = min(units, looked.at(i, now).model.numbers(now).Remaining)
	}
	return units
}

// open begins a hold.
func (a *openCharge) open(d *Decided, answer *Answer, counted map[string]int) {
	end := d.OnExpire
	if end == policy.OnExpireDefault {
		end = a.policy.OnExpire
	}
	a.counter.holds = append(a.counter.holds, hold{name: Target{Hold: true, Place: d.Place, Index: answer.Index},
		expires: answer.HoldExpires, taken: d.Place.At, cost: a.Cost, commit: end == policy.OnExpireCommit,
		counted: counted})
}

// denies reports whether one of the entry's own limits has denied the request.
func (a *openCharge) denies() bool {
	for i := range a.limits {
		if !a.admits[i] && !a.shadowed(i) {
			return true
		}
	}
	return false
}

// add counts an entry's cost regardless of its limits, and returns the names of those that counted all of it.
func (a *openCharge) add(now limit.Time, how func(*Model, uint64, limit.Time) bool) (counted []string) {
	for i := range a.limits {
		all, k := false, a.at(i, now)
		if !k.concurrency() {
			a.counting(i, now, func(m *Model) { all = how(m, a.Cost, now) })
		}
		if all {
			counted = append(counted, k.name)
		}
	}
	return counted
}

// status is the state of a limit without a request. ResetAt is searched for only if search is set.
func (a *openCharge) status(i int, now limit.Time, search bool) Status {
	l := &a.limits[i]
	k := a.at(i, now)
	s := Status{Limit: l.Name, Quota: l.Quota, Unlimited: l.Unlimited || l.Algorithm == limit.Unlimited,
		Shadow: a.shadowed(i), Soft: a.soft(i), Held: a.counter.held(k, now), Verdict: k.model.numbers(now)}
	if search {
		s.Verdict = k.model.Status(now)
	}
	if s.Unlimited {
		s.Quota, s.Remaining = 0, 0
	}
	s.LockoutLevel = ladderAt(a.counter.deeds, a.policy.Lockout, now).level
	s.ByHand = byHandAt(a.counter.deeds) > now
	if until := a.deniedUntil(now); until > now {
		s.BlockedUntil, s.Blocked = until, true
	} else if until := a.blockedUntil(now); until > now {
		s.BlockedUntil = until
	}
	return s
}

// withoutHolds is the charge as one shadowed limit sees it, which does not deny: see alone.
func (a *openCharge) withoutHolds() *openCharge {
	other := *a
	other.counter = a.counter.copied()
	other.counter.holds = nil
	other.alone = true
	return &other
}
