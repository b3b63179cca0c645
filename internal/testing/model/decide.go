package model

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// keep replaces the shard's counters by the working copies.
func (h *History) keep(all []*openCharge, now limit.Time) {
	for _, a := range all {
		h.store(a, now)
	}
}

// store replaces one counter of the shard.
func (h *History) store(a *openCharge, now limit.Time) {
	h.fire(a)
	a.counter.changed, a.counter.under = now, a.policy
	h.counters[a.address()] = a.counter
}

// ends reports whether an override has ended without the key knowing yet.
func (c *counter) ends(now limit.Time) bool {
	return c.override != nil && c.override.Expires != 0 && c.override.Expires <= now
}

// decide computes the answer that the shard must give, and counts it.
func (h *History) decide(d *Decided) (Answer, Refusal) {
	for _, c := range d.Charges { // in order: no key is read after a refused one
		if d.Op == Forget {
			break
		}
		override := h.counters[c.address()] != nil && h.counters[c.address()].ends(d.Place.At)
		a := h.openOne(c, d.Place.At)
		if (d.Op.deciding() || d.Op == Count || d.Op == Get) && a.unknown() {
			return Answer{}, KeyUnknown
		}
		// A request that may count keeps the changes that it met; every request keeps the restart of a limit.
		if reads := d.reads(c); a.changed && (!reads || a.policy.OnChange == policy.Restart && !override) {
			h.store(a, d.Place.At)
		}
	}
	if d.Op == Forget {
		for a := range h.counters {
			if a.key == d.Charges[0].Key {
				delete(h.counters, a)
			}
		}
		h.forgetFired(d.Charges[0].Key)
		return Answer{Place: d.Place, Allowed: true, Index: h.next()}, NotRefused
	}
	all := h.open(d, d.Place.At)
	switch {
	case d.Op == Settle:
		return h.settle(d, all)
	case d.Op == Tally || d.Op == ReadTally:
		return h.tally(d, all[0])
	case d.Op.deciding():
		return h.judge(d, all), NotRefused
	case d.Op == Count:
		took := make(map[address]taken)
		for _, a := range all {
			took[a.address()] = taken{a.Cost, a.add(d.Place.At, (*Model).count)}
			a.counter.bill.add(a.policy, a.Cost, d.Place.At)
		}
		h.taken[Target{Place: d.Place, Index: h.index + 1}] = took
	case d.Op == DeleteOverride && all[0].counter.override == nil: // nothing changes
		d = &Decided{Place: d.Place, Op: Get, Charges: d.Charges}
	case d.Op == CorrectUsage:
		if !all[0].counter.bill.correct(all[0].policy, *d.Correction, d.Amount, d.Place.At) {
			return Answer{}, NoPeriod
		}
	case d.Op != Get:
		for _, a := range all {
			a.adjust(d)
		}
	}
	answer := Answer{Place: d.Place, Allowed: true}
	if d.Op != Get {
		answer.Index = h.next()
		h.keep(all, d.Place.At)
	}
	for _, a := range h.open(d, d.Place.At) {
		for i := range a.limits {
			s := a.status(i, d.Place.At, h.searches())
			if k := a.at(i, d.Place.At); d.Op == Count && k.concurrency() && !s.Unlimited {
				if s.Allowed = k.model.Admits(a.Cost, d.Place.At); !s.Allowed {
					s.RetryAfter = limit.Never
				}
			} else if d.Op == Count {
				s.Allowed = s.Unlimited || s.Used <= s.Quota
			}
			answer.Limits = append(answer.Limits, s)
		}
	}
	return answer, NotRefused
}

// judge decides a request that can be denied.
func (h *History) judge(d *Decided, all []*openCharge) Answer {
	now := d.Place.At
	answer := Answer{Place: d.Place, Allowed: true}
	before := h.open(d, now)
	barred := false // by a block
	hard := false   // by a limit that asks for no challenge
	for _, a := range all {
		if a.deniedUntil(now) > now {
			barred = true
		} else if a.blockedUntil(now) > now {
			answer.ShadowDenied = true
		}
		a.granted = a.grants(d.Op, now)
		for i := range a.limits {
			a.admits = append(a.admits, a.fits(d.Op, i, now))
			if a.admits[i] {
				continue
			}
			if a.shadowed(i) {
				answer.ShadowDenied = true
			} else {
				answer.Allowed = false
				hard = hard || !a.soft(i)
			}
		}
	}
	deniedByLimits := !answer.Allowed
	answer.Allowed = answer.Allowed && !barred
	answer.ShadowDenied = answer.ShadowDenied && answer.Allowed
	answer.Challenged = deniedByLimits && !hard && !barred
	for _, c := range d.Charges { // from a denial on, too, units come back at the rate of the request
		if a := h.openOne(c, now); !answer.Allowed && !d.reads(c) && a.counter.carry(a.limits, a.policy, now) {
			h.store(a, now)
		}
	}
	switch {
	case answer.Allowed && d.Op != Peek:
		h.count(d, all, &answer)
	case deniedByLimits && !barred && !answer.Challenged && d.Op != Peek:
		h.countDenied(d, all, &answer)
	}
	after := h.open(d, now)
	for n, a := range after {
		a.granted, a.admits = all[n].granted, all[n].admits
		if d.Op == Partial && !answer.Allowed { // shows whether the least amount is available
			for i := range a.limits {
				a.admits[i] = a.limits[i].Unlimited || before[n].at(i, now).model.Admits(1, now)
			}
		}
		for i := range a.limits {
			answer.Limits = append(answer.Limits, h.verdict(a, d.Op, i, now, answer.Allowed))
		}
	}
	if !answer.Allowed && h.searches() {
		answer.RetryAfter = wait(h.open(d, now), now, admitsAll(d.Op))
	}
	return answer
}

// count takes the units of an admitted request, and begins its hold.
func (h *History) count(d *Decided, all []*openCharge, answer *Answer) {
	now := d.Place.At
	answer.Index = h.next()
	if d.Op == Reserve {
		answer.HoldExpires = now + limit.Time(d.TTL)
	}
	took := make(map[address]taken)
	for _, a := range all {
		if a.looks() {
			took[a.address()] = taken{}
			continue
		}
		by := []string(nil)
		counted := make(map[string]int)
		for i, l := range a.limits {
			k := a.at(i, now)
			if !l.Unlimited && !a.admits[i] || k.concurrency() && d.Op != Reserve {
				continue
			}
			all := true
			a.counting(i, now, func(m *Model) {
				if l.Unlimited {
					all = m.addBounded(a.granted, now) // the limit does not apply to the key, so its count is bounded
				} else {
					m.memory.count(a.granted, now)
				}
			})
			if all { // of a partly counted amount, the part to give back is unknown
				counted[l.Name] = k.generation
				by = append(by, l.Name)
			}
		}
		took[a.address()] = taken{a.granted, by}
		a.counter.bill.add(a.policy, a.granted, now)
		if d.Op == Reserve {
			a.open(d, answer, counted)
		}
	}
	if d.Op != Reserve { // a hold stores this itself
		h.taken[Target{Place: d.Place, Index: answer.Index}] = took
	}
	h.keep(slices.DeleteFunc(slices.Clone(all), (*openCharge).looks), d.Place.At)
}

// countDenied counts requests that limits have denied, if the policy says so.
func (h *History) countDenied(d *Decided, all []*openCharge, answer *Answer) {
	counted := false
	for _, a := range all {
		if !a.policy.CountDenied || a.looks() {
			continue
		}
		counted = true
		a.add(d.Place.At, (*Model).addBounded)
		if a.denies() && a.policy.Lockout != nil && a.policy.Lockout.OnDenied {
			a.counter.violate(a.policy.Lockout, d.Place.At)
		}
		h.store(a, d.Place.At)
	}
	if counted {
		answer.Index = h.next()
	}
}

// verdict is the state of a limit after a request that can be denied, with its verdict on the request.
func (h *History) verdict(a *openCharge, op Op, i int, now limit.Time, allowed bool) Status {
	later := *a // a denied caller that retries meets the stored counter, not the one shown now
	later.counter = a.counter.copied()
	s := a.status(i, now, h.searches())
	if op == Partial && allowed {
		s.Granted = a.granted
	}
	if a.admits[i] {
		return s
	}
	s.Allowed = false
	if h.searches() {
		units := a.units(op, i)
		one := []*openCharge{&later}
		if allowed { // by a shadowed limit: its wait is its own
			one = []*openCharge{a.withoutHolds()}
		} else {
			units = a.least(op)
		}
		s.RetryAfter = wait(one, now, func(all []*openCharge, at limit.Time) bool {
			return (all[0].alone || !all[0].unknown()) && all[0].at(i, at).model.Admits(units, at)
		})
	}
	return s
}
