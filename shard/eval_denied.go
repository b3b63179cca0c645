package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// deny applies a denial by op: nothing is counted, or the denial is, if count_denied says so. A part of an operation on
// several shards never counts its denial: it does not know whether the whole was denied, and by which shard. A challenge counts
// nothing and is no violation.
func (e *evaluation) deny(r *Request, op Op, d *Decision) {
	if e.blocked || len(d.Limits) > 1 {
		e.charges.undo(r, op, d, e.at.Now)
	}
	//mutant:challenge-counts-as-denial //mutant:denials-not-counted
	if !e.blocked && r.Operation == nil && e.charges.anyCountsDenied() && !d.Challenged() {
		e.countDenied(r, d)
	}
	e.exactWaits(r, op, d)
}

// exactWaits makes the waits of a denial exact where the limits' own waits are not: with holds, which end, with blocks,
// and where a limit was counted under other numbers. A denial does not store the new numbers, so a later request converts
// the old state again, with the units that have come back under the old numbers by then.
func (e *evaluation) exactWaits(r *Request, op Op, d *Decision) {
	if !e.extras && !e.charges.changing(e.at.Now) { //mutant:waits-ignore-new-numbers
		return
	}
	d.RetryAfter = e.charges.wait(r, op, -1, e.at.Now)
	for n := range d.Limits {
		if s := &d.Limits[n]; !s.Allowed {
			s.RetryAfter = e.charges.wait(r, op, n, e.at.Now)
		}
	}
}

func (cs charges) changing(now limit.Time) bool {
	for i := range cs {
		ch := &cs[i]
		for j := range ch.limits {
			if ch.counter.changing(j, &ch.limits[j], now) {
				return true
			}
		}
	}
	return false
}

// anyCountsDenied reports whether the policy of an entry has count_denied.
func (cs charges) anyCountsDenied() bool {
	for i := range cs {
		if cs[i].policy.CountDenied && !cs[i].looks {
			return true
		}
	}
	return false
}

// countDenied counts a denied request on the entries whose policies say so. It records a violation if an entry's own
// limits have denied and its lockout counts that as a violation. The statuses still show which limits have denied, and
// otherwise the new usage.
func (e *evaluation) countDenied(r *Request, d *Decision) {
	e.number(d)
	n := 0
	for i := range e.charges {
		ch := &e.charges[i]
		statuses := d.Limits[n : n+len(ch.limits)]
		n += len(ch.limits)
		if !ch.policy.CountDenied || ch.looks { //mutant:denied-look-counted
			continue
		}
		denied := false
		for j := range ch.limits {
			l, status := &ch.limits[j], &statuses[j]
			denied = denied || !status.Allowed && !status.Shadow
			s := ch.counter.at(j, l, e.at.Now)
			if l.Algorithm != limit.Concurrency {
				s, _ = limit.AddBounded(l.Limit, s, r.Entries[i].Cost, e.at.Now)
			}
			ch.setCounted(j, s, e.at.Now)
			was := status.Allowed
			_, status.Verdict = ask(Peek, l, s, r.Op.least(&r.Entries[i]), e.at.Now)
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

// future is an entry of a denied request at a later instant, if nobody does anything until then.
type future struct {
	charge
	ends    limit.Time // of the override that the limits come from; limit.Forever: there is none, or it does not end
	refused bool       // without the override, the key is refused
}

func (ch *charge) future(now limit.Time) future {
	f := future{charge: *ch, ends: limit.Forever}
	f.counter = ch.counter.future(now)
	//mutant:waits-ignore-overrides
	if o := f.counter.override(); o != nil && o.Expires != 0 && o.Expires < limit.MaxTime {
		f.ends = o.Expires
	}
	return f
}

// pass moves the future to an instant. An override that has ended stays in the counter, so that its numbers are still
// recognized, as in endOverride.
func (f *future) pass(tier string, t limit.Time) {
	f.counter.expire(t)
	if t < f.ends {
		return
	}
	f.ends, f.refused = limit.Forever, f.policy.UnknownKey == policy.UnknownKeyDeny
	f.limits, _ = f.policy.Resolve(tier)
}

// rests returns the next instant after t at which a limit comes to rest that was counted under other numbers. From then on it is as
// if it had never been used, and may have less room than before: a bucket may begin partly full.
func (f *future) rests(t limit.Time) limit.Time {
	next := limit.Forever
	for j := range f.limits {
		if l := &f.limits[j]; f.counter.changing(j, l, t) {
			k := &f.counter.limits[f.counter.limits.find(j, l.Name)]
			next = min(next, limit.ForgetAt(k.limit, k.state))
		}
	}
	return next
}

// wait returns the exact wait of a denied request: until the first instant at which every limit admits and no block
// denies, if nobody does anything. Open holds and overrides end when they expire. With only >= 0 it is the wait of that
// one status. Between two of these ends, and instants at which a limit starts afresh, every wait and block only shrinks, so
// it is enough to look at them.
func (cs charges) wait(r *Request, op Op, only int, now limit.Time) limit.Span {
	futures := make([]future, len(cs))
	for i := range cs {
		futures[i] = cs[i].future(now) //mutant:waits-ignore-holds
	}
	for t := startOfWait(r, op, futures, only, now); ; {
		next := limit.Forever
		for i := range futures {
			f := &futures[i]
			f.pass(r.Entries[i].Tier, t)
			next = min(next, f.ends, f.counter.extras.nextExpiry(), f.rests(t)) //mutant:waits-ignore-fresh-starts
		}
		w := waitAt(r, op, futures, only, t, next)
		if next == limit.Forever && w == limit.Never {
			return limit.Never
		}
		if w != limit.Never && t+limit.Time(w) < next {
			return limit.Span(t-now) + w
		}
		t = next
	}
}

// startOfWait returns an instant before which the request is certainly denied. It avoids looking at each expiry until
// then, of which there may be thousands.
func startOfWait(r *Request, op Op, futures []future, only int, now limit.Time) limit.Time {
	t, ends, n := now, limit.Forever, 0
	for i := range futures {
		f := &futures[i]
		ends = min(ends, f.ends)
		for j := range f.limits {
			l := &f.limits[j]
			if only == n || only < 0 && !l.Shadow && !f.policy.Shadow {
				t = max(t, f.counter.roomAt(j, l, op.least(&r.Entries[i])))
			}
			n++
		}
	}
	return min(t, ends)
}

// roomAt returns the instant at which enough open holds have ended for the i-th limit of a policy to have room for a cost,
// or the end of the last hold if they are not enough. It returns 0 for a limit that has room, or whose units come back by time.
func (c *counter) roomAt(i int, l *policy.Limit, cost uint64) (at limit.Time) {
	j := c.limits.find(i, l.Name)
	running := l.Algorithm == limit.Concurrency
	if j < 0 || l.Unlimited || !running && l.Algorithm != limit.Lifetime || !c.limits[j].limit.Equal(&l.Limit) {
		return 0
	}
	used := c.limits[j].state.A
	for k := range c.extras.openHolds() {
		h := &c.extras.holds[k]
		if used+cost <= l.Quota {
			break
		}
		if (running || h.onExpire == policy.OnExpireCancel) && c.limits[j].counts(h) {
			used -= min(used, h.cost)
			at = h.expires
		}
	}
	return at
}

// waitAt returns how long from t the request is denied, if nothing ends before that. At next something ends.
func waitAt(r *Request, op Op, futures []future, only int, t, next limit.Time) (wait limit.Span) {
	n := 0
	for i := range futures {
		f := &futures[i]
		if only < 0 {
			wait = longer(wait, f.waitAsAWhole(t))
		}
		for j := range f.limits {
			l := &f.limits[j]
			if only == n && f.refused {
				return limit.Never
			}
			if only == n || only < 0 && !l.Shadow && !f.policy.Shadow {
				wait = longer(wait, f.counter.waitOf(j, l, op.least(&r.Entries[i]), t, next))
			}
			n++
		}
	}
	return wait
}

// waitAsAWhole returns how long from t the key is denied regardless of its limits.
func (f *future) waitAsAWhole(t limit.Time) limit.Span {
	if f.refused {
		return limit.Never
	}
	return limit.Span(max(t, f.deniedUntil(f.counter, t)) - t)
}

// waitOf returns how long from t a limit has no room for a cost, as far as that is known before next.
func (c *counter) waitOf(i int, l *policy.Limit, cost uint64, t, next limit.Time) limit.Span {
	admits := func(at limit.Time) (bool, limit.Span) {
		_, v := ask(Peek, l, c.at(i, l, at), cost, at)
		return v.Allowed, v.RetryAfter
	}
	allowed, wait := admits(t)
	if allowed || wait == limit.Never && cost > l.Quota || !c.changing(i, l, t) {
		return wait
	}
	last := limit.MaxTime
	if next != limit.Forever { // then it may have more room, or less, and wait looks again
		last = next - 1
		if allowed, _ = admits(last); !allowed {
			return limit.Span(next - t)
		}
	}
	// Until then the free units under the old numbers only grow, so the first instant is found by bisection.
	no, yes := t, t+1
	for allowed, _ = admits(yes); !allowed; allowed, _ = admits(yes) {
		if yes == last {
			return limit.Never
		}
		no, yes = yes, min(t+2*(yes-t), last)
	}
	for yes-no > 1 {
		middle := no + (yes-no)/2
		if allowed, _ = admits(middle); allowed {
			yes = middle
		} else {
			no = middle
		}
	}
	return limit.Span(yes - t)
}
