package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// exactWaits makes the waits of a denial exact where the limits' own waits are not: with holds, which end, with blocks,
// and with overrides.
func (e *evaluation) exactWaits(r *Request, op Op, d *Decision) {
	if !e.extras {
		return
	}
	d.RetryAfter = e.charges.wait(r, op, -1, e.at.Now)
	for n := range d.Limits {
		if s := &d.Limits[n]; !s.Allowed {
			s.RetryAfter = e.charges.wait(r, op, n, e.at.Now)
		}
	}
}

// future is an entry of a denied request at a later instant, if nothing is done until then.
type future struct {
	charge
	ends    limit.Time // of the override with the limits; limit.Forever if there is none, or it does not end
	refused bool       // without the override, the key is refused
}

func (ch *charge) future(now limit.Time) future {
	f := future{charge: *ch, ends: limit.Forever}
	f.counter = ch.counter.future(now)
	f.counter.carry(f.limits, now) // a look shows what a request would get
	//mutant:waits-ignore-overrides
	if o := f.counter.override(); o != nil && o.Expires != 0 && o.Expires < limit.MaxTime {
		f.ends = o.Expires
	}
	return f
}

// pass moves the future to an instant, which is not after the end of the override.
func (f *future) pass(tier string, t limit.Time) {
	f.counter.expire(t)
	if t < f.ends {
		return
	}
	f.limits, _ = f.policy.Resolve(tier)
	f.counter.carry(f.limits, t)
	f.counter.extras.override = nil
	f.ends, f.refused = limit.Forever, f.policy.UnknownKey == policy.UnknownKeyDeny
}

// wait returns the exact wait of a denied request: until the first instant at which every limit admits and no block
// denies, if nothing is done. Open holds and overrides end when they expire. With only >= 0 it is the wait of that one
// status. Between two of these ends every wait and block only shrinks, so it is enough to look at them.
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
			next = min(next, f.ends, f.counter.extras.nextExpiry())
		}
		w := waitAt(r, op, futures, only, t)
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
// then: there may be thousands.
func startOfWait(r *Request, op Op, futures []future, only int, now limit.Time) limit.Time {
	t, ends := now, limit.Forever
	for i := range futures {
		f := &futures[i]
		ends = min(ends, f.ends)
		for j := range f.limits {
			l := &f.limits[j]
			if f.decides(j, only) {
				t = max(t, f.counter.roomAt(j, l, op.least(&r.Entries[i])))
			}
		}
	}
	return min(t, ends)
}

// decides reports whether a wait is for the j-th limit: with only >= 0 for that of this status, else for all that deny.
func (f *future) decides(j, only int) bool {
	return only == f.first+j || only < 0 && !f.limits[j].Shadow && !f.policy.Shadow
}

// roomAt returns the instant at which enough open holds have ended for the i-th limit of a policy to have room for a
// cost, or the end of the last hold if they are not enough. It returns 0 for a limit that has room, or that gets units
// back by time.
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

// waitAt returns how long from t the request is denied, if nothing ends before that.
func waitAt(r *Request, op Op, futures []future, only int, t limit.Time) (wait limit.Span) {
	for i := range futures {
		f := &futures[i]
		if only < 0 {
			wait = limit.Longer(wait, f.waitAsAWhole(t))
		}
		for j := range f.limits {
			if only == f.first+j && f.refused {
				return limit.Never
			}
			if f.decides(j, only) {
				_, v := f.ask(Peek, j, f.counter.at(j, &f.limits[j], t), op.least(&r.Entries[i]), t)
				wait = limit.Longer(wait, v.RetryAfter)
			}
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
