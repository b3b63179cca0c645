package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

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

// meetBlock records that an entry's key is blocked.
func (e *evaluation) meetBlock(op Op, ch *charge, d *Decision) {
	switch {
	case !op.decides():
	case ch.deniedUntil(ch.counter, e.at.Now) != 0:
		e.blocked = true //mutant:block-does-not-deny
	case ch.counter.extras.blockedUntil(e.at.Now) != 0:
		d.ShadowDenied = true
	}
}

// deniedUntil returns when the denying blocks of a counter have ended, or 0 if none denies. A ladder in shadow does not
// deny, but a block by hand always does, because it is deliberate.
func (ch *charge) deniedUntil(c *counter, now limit.Time) limit.Time {
	if ch.policy.Shadow {
		return c.extras.blockedByHand(now)
	}
	return c.extras.blockedUntil(now)
}
