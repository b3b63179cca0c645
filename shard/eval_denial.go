package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// deny applies a denial by op: it counts nothing, or the denial itself if count_denied is set. A part of an operation
// on several shards never counts its denial: it does not know whether the whole was denied, and by which shard. A
// challenge counts nothing and is no violation.
func (e *evaluation) deny(r *Request, op Op, d *Decision) {
	if e.blocked || len(d.Limits) > 1 {
		e.charges.undo(r, op, d, e.at.Now)
	}
	e.keepNumbers() //mutant:denial-keeps-old-numbers
	//mutant:challenge-counts-as-denial //mutant:denials-not-counted
	if !e.blocked && r.Operation == nil && e.charges.anyCountsDenied() && !d.Challenged() {
		e.countDenied(r, d)
	}
	e.exactWaits(r, op, d)
}

// keepNumbers writes the numbers of a denied request's tier, or those that came with it, beside the counts, as a
// counted request does. So from the first request with other numbers on, units come back at the new rate, whatever the
// answer. Units unknown since a restore belong to no numbers, and are not written with any.
func (e *evaluation) keepNumbers() {
	for i := range e.charges {
		ch := &e.charges[i]
		if c := ch.counter; !ch.looks && !c.copy && !c.mark.fills(ch.policy, ch.limits, e.at.Now) &&
			c.carry(ch.limits, e.at.Now) {
			e.touch(c)
		}
	}
}

// anyCountsDenied reports whether the policy of an entry has count_denied.
func (cs charges) anyCountsDenied() bool {
	return slices.ContainsFunc(cs, func(ch charge) bool { return ch.policy.CountDenied && !ch.looks })
}

// countDenied counts a denied request on the entries with count_denied in their policies. It records a violation if an
// entry's own limits have denied and its lockout counts that as a violation. The statuses still show which limits have
// denied, and otherwise the new usage.
func (e *evaluation) countDenied(r *Request, d *Decision) {
	e.number(d)
	for i := range e.charges {
		ch := &e.charges[i]
		if !ch.policy.CountDenied || ch.looks { //mutant:denied-look-counted
			continue
		}
		denied := false
		for j := range ch.limits {
			l, status := &ch.limits[j], &d.Limits[ch.first+j]
			denied = denied || !status.Allowed && !status.Shadow
			s := ch.counter.at(j, l, e.at.Now)
			if l.Algorithm != limit.Concurrency {
				s, _ = limit.AddBounded(l.Limit, s, r.Entries[i].Cost, e.at.Now)
			}
			ch.setCounted(j, s, e.at.Now)
			was := status.Allowed
			_, status.Verdict = ch.ask(Peek, j, s, r.Op.least(&r.Entries[i]), e.at.Now)
			if status.Allowed = was; was {
				status.RetryAfter = 0
			}
		}
		if k := ch.policy.Lockout; denied && k != nil && k.OnDenied {
			ch.counter.violate(e.at.Now)
		}
		e.touch(ch.counter)
	}
	e.extras = true // the wait has changed, and there may be a block
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
