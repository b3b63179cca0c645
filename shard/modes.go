package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// decides reports whether the operation is allowed or denied by limits and blocks.
func (o Op) decides() bool { return o == Check || o == Peek || o == Partial || o == Reserve }

// charges reports whether the operation may make a record for a key that was never seen.
func (o Op) charges() bool {
	switch o {
	case Check, Count, Partial, Reserve, SetUsed, AddUsed, Block, PutOverride, Charge, Tally:
		return true
	}
	return false
}

// Changes reports whether the operation changes anything, so that a second copy of it must not be carried out too. All
// others may be asked again at will: a session too many is forgotten by itself.
func (o Op) Changes() bool {
	switch o {
	case Peek, Get, OpenSession, Fetch, ReadAudit, AskHome, ReadTally:
		return false
	}
	return true
}

// least is how many units an entry must have room for to be allowed.
func (o Op) least(e *Entry) uint64 {
	if o == Partial {
		return 1
	}
	return e.Cost
}

// ask puts an operation to one limit and returns the state it would lead to. What a tier has lifted counts all and
// denies nothing. A concurrency limit counts what is reserved and nothing else; all that decides is decided by it.
func ask(op Op, l *policy.Limit, s limit.State, cost uint64, now limit.Time) (limit.State, limit.Verdict) {
	if l.Algorithm == limit.Concurrency && op != Reserve && (op.decides() || op == Count) {
		op = Peek
	}
	takes := op == Check || op == Reserve || op == Partial
	var v limit.Verdict
	switch {
	case takes && !l.Unlimited:
		return limit.Take(l.Limit, s, cost, now)
	case takes || op == Count:
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

// room is how much of a cost all limits of an entry have room for.
func (e *evaluation) room(ch *charge, cost uint64) uint64 {
	for j := range ch.limits {
		l := &ch.limits[j]
		if l.Shadow || l.Unlimited || ch.policy.Shadow || l.Algorithm == limit.Unlimited {
			continue
		}
		cost = min(cost, limit.Status(l.Limit, ch.counter.at(j, l, e.at.Now), e.at.Now).Remaining)
	}
	return cost
}

// roomForHolds refuses one hold too many on a counter.
func (e *evaluation) roomForHolds() *Error {
	for i := range e.charges {
		if len(e.charges[i].counter.holds()) >= maxHolds {
			return &Error{Code: Overloaded, Message: fmt.Sprintf("entries[%d]: the key has %d open holds, which is the "+
				"most: settle some, or reserve for a shorter time", i, maxHolds)}
		}
	}
	return nil
}

// putHolds puts a hold of each entry's cost into its counter, behind count. What the limits have in shadow denied, and
// what a concurrency limit has not counted as it was no Reserve, the hold does not give back.
func (e *evaluation) putHolds(r *Request, d *Decision, h hold) {
	e.extras = true
	h.taken = e.at.Now
	n := 0
	for i := range e.charges {
		ch, own := &e.charges[i], h
		own.cost = r.Entries[i].Cost
		if own.onExpire == policy.OnExpireDefault {
			own.onExpire = ch.policy.OnExpire
		}
		for j := range ch.limits {
			l := &ch.limits[j]
			if !d.Limits[n].Allowed || l.Algorithm == limit.Concurrency && r.Hold == nil {
				own.uncounted = append(own.uncounted, l.Name)
			}
			if k := ch.counter.find(j, l.Name); ch.counter.limits[k].since == h.taken {
				own.fresh = true
			}
			n++
		}
		for j := range ch.counter.limits { // a limit that the policy has no more counted nothing of it either
			name := ch.counter.limits[j].name
			if !slices.ContainsFunc(ch.limits, func(l policy.Limit) bool { return l.Name == name }) {
				own.uncounted = append(own.uncounted, name)
			}
		}
		ch.counter.addHold(own)
		e.touch(ch.counter)
		e.bytes += len(own.name) + 32
	}
}

// meetBlock notes that an entry's key is blocked.
func (e *evaluation) meetBlock(op Op, ch *charge, d *Decision) {
	switch {
	case !op.decides() || ch.counter.blockedUntil(e.at.Now) == 0:
	case ch.policy.Shadow:
		d.ShadowDenied = true
	default:
		e.blocked = true
	}
}

// showExtras fills in what statuses say of holds, ladder and blocks, as the decision left them.
func (e *evaluation) showExtras(d *Decision) {
	n := 0
	for i := range e.charges {
		ch := &e.charges[i]
		c := ch.counter
		until, level := c.blockedUntil(e.at.Now), c.level(e.at.Now)
		for j := range ch.limits {
			s := &d.Limits[n]
			s.LockoutLevel, s.BlockedUntil, s.Blocked = level, until, until != 0 && !ch.policy.Shadow
			s.Held = 0
			if len(c.holds()) > 0 {
				s.Held = min(s.Used, c.held(j, &ch.limits[j], e.at.Now))
			}
			n++
		}
	}
}

// held is how many units of the i-th limit of a policy are those of open holds.
func (c *counter) held(i int, l *policy.Limit, now limit.Time) uint64 {
	j := c.find(i, l.Name)
	if j < 0 || !c.limits[j].limit.Equal(&l.Limit) && c.beginsAnew(c.limits[j].limit, l.Limit) {
		return 0
	}
	if c.limits[j].limit.Equal(&l.Limit) {
		return c.heldBy(j, now)
	}
	return c.heldOf(&counted{name: l.Name, limit: l.Limit, state: c.at(i, l, now), since: c.limits[j].since}, now)
}
