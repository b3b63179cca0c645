package check

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// asked is one charge of a request with the working copy of its counter.
type asked struct {
	Charge
	policy  *policy.Policy
	limits  []policy.Limit // as the tier and the override have them
	counter *counter
	granted uint64
	admits  []bool // by limit, before anything was counted
}

// open makes working copies of a request's counters, on which what was due at an instant has ended. Looking at a copy
// may carry a limit over to the numbers of now; so whoever only shows something opens copies for that.
func (h *History) open(d *Decided, at limit.Time) (all []*asked) {
	for _, c := range d.Charges {
		a := &asked{Charge: c, policy: h.policyOf(c)}
		if known := h.counters[c.address()]; known != nil {
			a.counter = known.copied()
		} else {
			a.counter = &counter{}
		}
		a.counter.expire(a.policy.Lockout, at)
		if o := a.counter.override; o != nil && o.Expires != 0 && o.Expires <= at {
			a.counter.override = nil
		}
		a.limits = resolve(a.policy, c.Tier, a.counter.override)
		all = append(all, a)
	}
	return all
}

func (c Charge) address() address {
	if c.Inline != nil {
		return address{"~" + c.Policy, c.Key}
	}
	return address{c.Policy, c.Key}
}

// keep makes the working copies those of the shard.
func (h *History) keep(all []*asked) {
	for _, a := range all {
		h.counters[a.address()] = a.counter
	}
}

// decide is what the shard must say, and counts it.
func (h *History) decide(d *Decided) (Answer, Refusal) {
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
			took[a.address()] = taken{a.Cost, a.add(d.Place.At)}
		}
		h.taken[Target{Place: d.Place, Index: h.index + 1}] = took
	case d.Op == DeleteOverride && all[0].counter.override == nil: // nothing changes
		d = &Decided{Place: d.Place, Op: Get, Charges: d.Charges}
	case d.Op != Get:
		for _, a := range all {
			a.adjust(d)
		}
	}
	answer := Answer{Place: d.Place, Allowed: true}
	if d.Op != Get {
		answer.Index = h.next()
		h.keep(all)
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
	for _, a := range all {
		if a.blockedUntil(now) > now {
			answer.ShadowDenied = answer.ShadowDenied || a.policy.Shadow
			barred = barred || !a.policy.Shadow
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
			}
		}
	}
	deniedByLimits := !answer.Allowed
	answer.Allowed = answer.Allowed && !barred
	switch {
	case answer.Allowed && d.Op != Peek:
		h.count(d, all, &answer)
	case deniedByLimits && !barred && d.Op != Peek:
		h.countDenied(d, all, &answer)
	}
	after := h.open(d, now)
	for n, a := range after {
		a.granted, a.admits = all[n].granted, all[n].admits
		if d.Op == Partial && !answer.Allowed { // shown is whether the least is there
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

func (a *asked) blockedUntil(now limit.Time) limit.Time {
	return a.counter.blockedUntil(a.policy.Lockout, now)
}

func (a *asked) at(i int, now limit.Time) *kept {
	return a.counter.at(&a.limits[i], a.policy.OnChange, now)
}

// grants is how much an entry takes: of a Partial as much as every limit that can deny has room for.
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

// fits reports whether a limit admits the request.
func (a *asked) fits(op Op, i int, now limit.Time) bool {
	if a.limits[i].Unlimited {
		return true
	}
	return a.at(i, now).model.Admits(a.units(op, i), now)
}

// units is what a limit is asked for: a Partial needs room for one of those that can deny.
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
		by := []string(nil)
		counted := make(map[string]int)
		for i, l := range a.limits {
			k := a.at(i, now)
			if !l.Unlimited && !a.admits[i] || k.concurrency() && d.Op != Reserve {
				continue
			}
			counted[l.Name] = k.generation
			by = append(by, l.Name)
			if l.Unlimited {
				k.model.add(a.granted, now)
			} else {
				k.model.memory.count(a.granted, now)
			}
		}
		took[a.address()] = taken{a.granted, by}
		if d.Op == Reserve {
			a.open(d, answer, counted)
		}
	}
	if d.Op != Reserve { // a hold knows for itself
		h.taken[Target{Place: d.Place, Index: answer.Index}] = took
	}
	h.keep(all)
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

// countDenied counts what limits have denied, where the policy says so.
func (h *History) countDenied(d *Decided, all []*asked, answer *Answer) {
	counted := false
	for _, a := range all {
		if !a.policy.CountDenied {
			continue
		}
		counted = true
		a.add(d.Place.At)
		if a.denies() && a.policy.Lockout != nil && a.policy.Lockout.OnDenied {
			a.counter.violate(a.policy.Lockout, d.Place.At)
		}
		h.counters[a.address()] = a.counter
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

// add counts an entry's cost whatever its limits say, and names those that do.
func (a *asked) add(now limit.Time) (counted []string) {
	for i := range a.limits {
		if k := a.at(i, now); !k.concurrency() {
			k.model.add(a.Cost, now)
			counted = append(counted, k.name)
		}
	}
	return counted
}

// status is a limit as it is, with no request in sight. Its ResetAt is searched for only if somebody looks.
func (a *asked) status(i int, now limit.Time, search bool) Status {
	l := &a.limits[i]
	k := a.at(i, now)
	s := Status{Limit: l.Name, Quota: l.Quota, Unlimited: l.Unlimited || l.Algorithm == limit.Unlimited,
		Shadow: a.shadowed(i), Held: a.counter.held(k, now), Verdict: k.model.numbers(now)}
	if search {
		s.Verdict = k.model.Status(now)
	}
	if s.Unlimited {
		s.Quota, s.Remaining = 0, 0
	}
	s.LockoutLevel = ladderAt(a.counter.deeds, a.policy.Lockout, now).level
	if until := a.blockedUntil(now); until > now {
		s.BlockedUntil, s.Blocked = until, !a.policy.Shadow
	}
	return s
}

// verdict is a limit as a request that can be denied has left it, and what it said of the request.
func (h *History) verdict(a *asked, op Op, i int, now limit.Time, allowed bool) Status {
	later := *a // who is denied and asks again later finds what was written down, and not what is shown now
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
		if allowed { // by a limit in shadow: its wait is its own
			one = []*asked{a.withoutHolds()}
		} else {
			units = a.least(op)
		}
		s.RetryAfter = wait(one, now, func(all []*asked, at limit.Time) bool { return all[0].at(i, at).model.Admits(units, at) })
	}
	return s
}

func (a *asked) withoutHolds() *asked {
	other := *a
	other.counter = a.counter.copied()
	other.counter.holds = nil
	return &other
}
