package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// charge is an entry of the current request: its counter, and the limits with the numbers of its tier or of the key's
// override. The policy is inlinePolicy if the request has inline limits.
type charge struct {
	counter *counter
	policy  *policy.Policy
	limits  []policy.Limit
	first   int    // the place of its first limit in Decision.Limits, and in the states that they lead to
	looks   bool   // the entry's cost is 0: it can deny the request, and counts nothing
	units   uint64 // taken by the request if it is allowed
}

// charges are the charges of one request, in the order of its entries.
type charges []charge

// undo makes the statuses of a denial show the current state, since no limit was counted. The statuses of a Partial
// show whether its minimum has room.
func (cs charges) undo(r *Request, op Op, d *Decision, now limit.Time) {
	for i := range cs {
		ch := &cs[i]
		for j := range ch.limits {
			l, status := &ch.limits[j], &d.Limits[ch.first+j]
			if status.Allowed || op == Partial {
				_, status.Verdict = ch.ask(Peek, j, ch.counter.at(j, l, now), op.least(&r.Entries[i]), now)
			}
			status.Granted = 0
		}
	}
}

// policyOf returns the policy of an entry.
func (b *batch) policyOf(entry *Entry) (*policy.Policy, bool) {
	if entry.Limits != nil {
		return inlinePolicy, true
	}
	return b.policies.Lookup(entry.Policy)
}

// charge returns the counter of the i-th entry and its limits: the inline ones, or those of its policy with the entry's
// tier or the key's override.
func (b *batch) charge(r *Request, i int, op Op) (charge, *Error) {
	entry := &r.Entries[i]
	p, ok := b.policyOf(entry)
	settles := op == Settle || r.returnsLease() //mutant:return-of-a-removed-tier-refused
	switch {
	case settles && (!ok || entry.Limits != nil):
		return b.storedCharge(r, i)
	case !ok:
		return charge{}, errorf(PolicyNotFound, fmt.Sprintf("entries[%d].policy", i), "no policy is named %q%s; "+
			"`stint policies` lists them", entry.Policy, didYouMean(b.policies.Nearest(entry.Policy)))
	case entry.Limits != nil:
		c, err := b.counter(r, i, p, entry.Limits)
		if err != nil {
			return charge{}, err
		}
		c = b.bringUp(c, nil, "", false)
		if op.charges() && !c.hasRoomFor(entry.Limits, b.at.Now) {
			return charge{}, errorf(Overloaded, fmt.Sprintf("entries[%d].limits", i), "would be too many on the key, "+
				"which remembers at most %d: name them as before, or wait until old ones end", maxInline)
		}
		return charge{counter: c, policy: p, limits: entry.Limits}, nil
	}
	c, err := b.counter(r, i, p, p.Limits)
	if err != nil {
		return charge{}, err
	}
	override := c.override()
	if !inForce(override, b.at.Now) {
		override = nil
	}
	limits, ok := p.ResolveFor(entry.Tier, override)
	if !ok && settles { //mutant:settlement-of-a-removed-tier-refused
		limits, ok = p.OfTier(entry.Tier, override), true
	}
	if !ok {
		return charge{}, Invalidf(fmt.Sprintf("entries[%d].tier", i), "policy %q has no tier %q%s",
			entry.Policy, entry.Tier, didYouMean(p.NearestTier(entry.Tier)))
	}
	if p.UnknownKey == policy.UnknownKeyDeny && override == nil && op.needsKey() && !settles {
		return charge{}, errorf(KeyNotFound, fmt.Sprintf("entries[%d].key", i), "policy %q knows no key %q: "+
			"give it an override first, of a tier or of numbers", entry.Policy, entry.Key)
	}
	c = b.bringUp(c, limits, entry.Tier, op.reads(entry))
	return charge{counter: c, policy: p, limits: limits}, nil
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", name)
}

// storedCharge returns the charge of the entry of a settlement, or of a returned lease, if only the key's record still
// has its limits: the hold's id contains just the names of inline limits, and a policy may no longer exist. A limit that
// was at rest and forgotten is left out.
func (b *batch) storedCharge(r *Request, i int) (charge, *Error) {
	entry := &r.Entries[i]
	c, err := b.counter(r, i, inlinePolicy, entry.Limits)
	if err != nil {
		return charge{}, err
	}
	c = b.bringUp(c, nil, "", false)
	limits := make([]policy.Limit, 0, len(c.limits))
	for i := range c.limits {
		l := &c.limits[i]
		named := func(n policy.Limit) bool { return n.Name == l.name }
		if entry.Limits == nil || slices.ContainsFunc(entry.Limits, named) {
			limits = append(limits, policy.Limit{Name: l.name, Limit: l.limit})
		}
	}
	return charge{counter: c, policy: c.policy, limits: limits}, nil
}

// ask applies an operation to one limit and returns the resulting state. A limit that a tier has lifted counts
// everything and denies nothing. A concurrency limit counts only reserved units, but decides every operation that
// limits decide.
func ask(op Op, l *policy.Limit, s limit.State, cost uint64, now limit.Time) (limit.State, limit.Verdict) {
	//mutant:check-takes-concurrency
	if l.Algorithm == limit.Concurrency && op != Reserve && (op.decides() || op == Count) {
		op = Peek
	}
	takes := op == Check || op == Reserve || op == Partial
	var v limit.Verdict
	switch {
	case takes && !l.Unlimited:
		return limit.Take(l.Limit, s, cost, now)
	case takes: // lifted: a key that gets a tier with limits again waits for at most two fillings
		s, v = limit.AddBounded(l.Limit, s, cost, now)
	case op == Count:
		s, v = limit.Add(l.Limit, s, cost, now)
	case op == Peek && !l.Unlimited:
		return s, limit.Peek(l.Limit, s, cost, now)
	default:
		v = limit.Status(l.Limit, s, now)
	}
	if l.Unlimited {
		v.Allowed, v.Remaining = true, 0
	}
	return s, v
}

// ask is the function ask for the j-th limit, and shows units that leases hold as used. A concurrency limit counts only
// reservations, and so no leases.
func (ch *charge) ask(op Op, j int, s limit.State, cost uint64, now limit.Time) (limit.State, limit.Verdict) {
	l, leased := &ch.limits[j], ch.counter.extras.leased()
	if leased == 0 || l.Algorithm == limit.Concurrency {
		return ask(op, l, s, cost, now)
	}
	rest := *l
	rest.Limit = l.Limit.Without(leased)
	var v limit.Verdict
	if op.exceeds(l) { // a state that exceeds the quota is one of l
		s, _ = ask(op, l, s, cost, now)
		_, v = ask(Get, &rest, s, 0, now)
	} else {
		s, v = ask(op, &rest, s, cost, now) //mutant:leased-units-are-left
	}
	v.Used += leased
	if op == Count && !l.Unlimited && l.Algorithm != limit.Unlimited {
		v.Allowed = v.Used <= l.Quota
	}
	return s, v
}

// room returns how many of some units have room in all limits of an entry that bound them.
func (ch *charge) room(units uint64, bounds func(*policy.Limit) bool, now limit.Time) uint64 {
	for j := range ch.limits {
		if l := &ch.limits[j]; bounds(l) {
			_, v := ch.ask(Get, j, ch.counter.at(j, l, now), 0, now)
			units = min(units, v.Remaining)
		}
	}
	return units
}
