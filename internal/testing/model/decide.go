package model

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"slices"
)

// asked is one charge of a request, with the working copy of its counter.
type asked struct {
	Charge
	policy  *policy.Policy
	limits  []policy.Limit // under the tier and the override
	counter *counter
	granted uint64
	admits  []bool // by limit, before anything was counted
	crossed []Fired
	changed bool // numbers have changed before the request, or an override has ended
	alone   bool // the question is about one limit, independently of holds and override
}

// unknown reports whether the policy refuses the key because it has no override.
func (a *asked) unknown() bool {
	return a.Inline == nil && a.policy.UnknownKey == policy.UnknownKeyDeny && a.counter.override == nil
}

// open makes working copies of a request's counters, on which everything due at an instant has ended. Reading a copy
// may carry a limit over to its current numbers, so a caller that only shows something opens its own copies.
func (h *History) open(d *Decided, at limit.Time) (all []*asked) {
	for _, c := range d.Charges {
		all = append(all, h.openOne(c, at))
	}
	return all
}

func (h *History) openOne(c Charge, at limit.Time) *asked {
	a := &asked{Charge: c, policy: h.policyOf(c)}
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

func (c Charge) address() address {
	if c.Inline != nil {
		return address{"~" + c.Policy, c.Key}
	}
	return address{c.Policy, c.Key}
}

// keep replaces the shard's counters by the working copies.
func (h *History) keep(all []*asked, now limit.Time) {
	for _, a := range all {
		h.store(a, now)
	}
}

// store replaces one counter of the shard.
func (h *History) store(a *asked, now limit.Time) {
	h.fire(a)
	a.counter.changed, a.counter.under = now, a.policy
	h.counters[a.address()] = a.counter
}

// reads reports whether a request changes nothing on an entry.
func (d *Decided) reads(c Charge) bool {
	return d.Op == Peek || d.Op == Get || d.Op == ReadTally || d.Op == Take && c.Cost == 0
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
func (h *History) judge(d *Decided, all []*asked) Answer {
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

func (a *asked) shadowed(i int) bool { return a.policy.Shadow || a.limits[i].Shadow }

// soft reports whether a limit asks for a challenge instead of denying.
func (a *asked) soft(i int) bool { return a.limits[i].OnExceeded == policy.ExceededChallenge }

func (a *asked) blockedUntil(now limit.Time) limit.Time {
	return a.counter.blockedUntil(a.policy.Lockout, now)
}

// deniedUntil is the end of the last block, except those of a shadowed ladder: an operator's block always denies.
func (a *asked) deniedUntil(now limit.Time) limit.Time {
	if a.policy.Shadow {
		return byHandAt(a.counter.deeds)
	}
	return a.blockedUntil(now)
}

func (a *asked) at(i int, now limit.Time) *kept {
	return a.counter.at(&a.limits[i], a.policy, now)
}

// grants is how much an entry takes: for a Partial, as much as fits into every limit that can deny.
func (a *asked) grants(op Op, now limit.Time) uint64 {
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
func (a *asked) looks() bool { return a.Cost == 0 }

// fits reports whether a limit admits the request.
func (a *asked) fits(op Op, i int, now limit.Time) bool {
	if a.limits[i].Unlimited {
		return true
	}
	return a.at(i, now).model.Admits(a.units(op, i), now)
}

// units is the amount that a limit must admit: for a Partial, one unit if the limit can deny.
func (a *asked) units(op Op, i int) uint64 {
	if op == Partial && !a.shadowed(i) {
		return 1
	}
	return max(a.granted, 1)
}

// count takes the units of an admitted request, and begins its hold.
func (h *History) count(d *Decided, all []*asked, answer *Answer) {
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
	h.keep(slices.DeleteFunc(slices.Clone(all), (*asked).looks), d.Place.At)
}

// open begins a hold.
func (a *asked) open(d *Decided, answer *Answer, counted map[string]int) {
	end := d.OnExpire
	if end == policy.OnExpireDefault {
		end = a.policy.OnExpire
	}
	a.counter.holds = append(a.counter.holds, hold{name: Target{Hold: true, Place: d.Place, Index: answer.Index},
		expires: answer.HoldExpires, taken: d.Place.At, cost: a.Cost, commit: end == policy.OnExpireCommit,
		counted: counted})
}

// countDenied counts requests that limits have denied, if the policy says so.
func (h *History) countDenied(d *Decided, all []*asked, answer *Answer) {
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

// denies reports whether one of the entry's own limits has denied the request.
func (a *asked) denies() bool {
	for i := range a.limits {
		if !a.admits[i] && !a.shadowed(i) {
			return true
		}
	}
	return false
}

// add counts an entry's cost regardless of its limits, and returns the names of those that counted all of it.
func (a *asked) add(now limit.Time, how func(*Model, uint64, limit.Time) bool) (counted []string) {
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
func (a *asked) status(i int, now limit.Time, search bool) Status {
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

// verdict is the state of a limit after a request that can be denied, with its verdict on the request.
func (h *History) verdict(a *asked, op Op, i int, now limit.Time, allowed bool) Status {
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
		one := []*asked{&later}
		if allowed { // by a shadowed limit: its wait is its own
			one = []*asked{a.withoutHolds()}
		} else {
			units = a.least(op)
		}
		s.RetryAfter = wait(one, now, func(all []*asked, at limit.Time) bool {
			return (all[0].alone || !all[0].unknown()) && all[0].at(i, at).model.Admits(units, at)
		})
	}
	return s
}

func (a *asked) withoutHolds() *asked {
	other := *a
	other.counter = a.counter.copied()
	other.counter.holds = nil
	other.alone = true
	return &other
}
