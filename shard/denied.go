package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// deny does what a denial by op comes to: nothing is counted, or what count_denied says. A part of an operation on
// several shards never counts its denial: whether the whole was denied, and by whom, is another shard's to know.
func (e *evaluation) deny(r *Request, op Op, d *Decision) {
	if e.blocked || len(d.Limits) > 1 {
		e.undo(r, op, d)
	}
	if !e.blocked && r.Operation == nil && e.countsDenied() {
		e.countDenied(r, d)
	}
	e.exactWaits(r, op, d)
}

// exactWaits makes the waits of a denial exact where they are not the limits' own: with holds, which end, and blocks, and
// where a limit was counted under other numbers. A denial does not write those of now down, so whoever asks again later
// finds the old ones again, and what has come back under them by then.
func (e *evaluation) exactWaits(r *Request, op Op, d *Decision) {
	if !e.extras && !e.changing() {
		return
	}
	d.RetryAfter = e.wait(r, op, -1)
	for n := range d.Limits {
		if s := &d.Limits[n]; !s.Allowed {
			s.RetryAfter = e.wait(r, op, n)
		}
	}
}

func (e *evaluation) changing() bool {
	for i := range e.charges {
		ch := &e.charges[i]
		for j := range ch.limits {
			if ch.counter.changing(j, &ch.limits[j], e.at.Now) {
				return true
			}
		}
	}
	return false
}

func (e *evaluation) countsDenied() bool {
	for i := range e.charges {
		if e.charges[i].policy.CountDenied {
			return true
		}
	}
	return false
}

// countDenied counts a denied request on the entries whose policies say so, and notes a violation where an entry's own
// limits have denied and its lockout says that this is one. The statuses still say which limits have denied, and
// otherwise show what came of it.
func (e *evaluation) countDenied(r *Request, d *Decision) {
	e.index++
	d.Index = e.index
	n := 0
	for i := range e.charges {
		ch := &e.charges[i]
		statuses := d.Limits[n : n+len(ch.limits)]
		n += len(ch.limits)
		if !ch.policy.CountDenied {
			continue
		}
		denied := false
		for j := range ch.limits {
			l, status := &ch.limits[j], &statuses[j]
			denied = denied || !status.Allowed && !status.Shadow
			s, _ := ask(Count, l, ch.counter.at(j, l, e.at.Now), r.Entries[i].Cost, e.at.Now)
			ch.counter.set(j, l, s, e.at.Now)
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
	e.extras = true // the wait is another now, and there may be a block
}

// wait is the exact wait of a denied request: the first instant at which every limit admits and no block denies, if
// nobody does anything, but open holds end when they expire. With only >= 0 it is that of this one status. Between two
// expiries every wait and every block only ends, so it is enough to look there.
func (e *evaluation) wait(r *Request, op Op, only int) limit.Span {
	futures := make([]*counter, len(e.charges))
	for i := range e.charges {
		futures[i] = e.charges[i].counter.future()
	}
	for t := e.startOfWait(r, op, futures, only); ; {
		next := limit.Forever
		for _, f := range futures {
			f.expire(t)
			next = min(next, f.nextExpiry())
		}
		w := e.waitAt(r, op, futures, only, t)
		if next == limit.Forever && w == limit.Never {
			return limit.Never
		}
		if w != limit.Never && t+limit.Time(w) < next {
			return limit.Span(t-e.at.Now) + w
		}
		t = next
	}
}

// startOfWait is an instant before which the request is denied for certain. It spares looking at each expiry on the way
// there, of which there may be thousands.
func (e *evaluation) startOfWait(r *Request, op Op, futures []*counter, only int) limit.Time {
	t, n := e.at.Now, 0
	for i := range e.charges {
		ch := &e.charges[i]
		for j := range ch.limits {
			l := &ch.limits[j]
			if only == n || only < 0 && !l.Shadow && !ch.policy.Shadow {
				t = max(t, futures[i].roomAt(j, l, op.least(&r.Entries[i])))
			}
			n++
		}
	}
	return t
}

// roomAt is the instant at which enough open holds have ended for the i-th limit of a policy to have room for a cost; if
// they are not enough, the end of the last. It is 0 for a limit that has room, or whose units come back by time.
func (c *counter) roomAt(i int, l *policy.Limit, cost uint64) (at limit.Time) {
	j := c.find(i, l.Name)
	running := l.Algorithm == limit.Concurrency
	if j < 0 || l.Unlimited || !running && l.Algorithm != limit.Lifetime || !c.limits[j].limit.Equal(&l.Limit) {
		return 0
	}
	used := c.limits[j].state.A
	for k := range c.holds() {
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

// waitAt is how long from t on the request is denied, if nothing ends by itself until then.
func (e *evaluation) waitAt(r *Request, op Op, futures []*counter, only int, t limit.Time) (wait limit.Span) {
	n := 0
	for i := range e.charges {
		ch, f := &e.charges[i], futures[i]
		if until := f.blockedUntil(t); until != 0 && !ch.policy.Shadow && only < 0 {
			wait = longer(wait, limit.Span(until-t))
		}
		for j := range ch.limits {
			l := &ch.limits[j]
			if only == n || only < 0 && !l.Shadow && !ch.policy.Shadow {
				wait = longer(wait, f.waitOf(j, l, op.least(&r.Entries[i]), t))
			}
			n++
		}
	}
	return wait
}

// waitOf is how long from t on a limit has no room for a cost.
func (c *counter) waitOf(i int, l *policy.Limit, cost uint64, t limit.Time) limit.Span {
	admits := func(at limit.Time) (bool, limit.Span) {
		_, v := ask(Peek, l, c.at(i, l, at), cost, at)
		return v.Allowed, v.RetryAfter
	}
	allowed, wait := admits(t)
	if allowed || wait == limit.Never && cost > l.Quota || !c.changing(i, l, t) {
		return wait
	}
	if next := c.nextExpiry(); next != limit.Forever { // then there is more room, and wait looks again
		if allowed, _ = admits(next - 1); !allowed {
			return limit.Span(next - t)
		}
	}
	// Under the old numbers more and more comes back, so the first instant is found by halving.
	no, yes := t, t+1
	for allowed, _ = admits(yes); !allowed; allowed, _ = admits(yes) {
		if yes == limit.MaxTime {
			return limit.Never
		}
		no, yes = yes, min(t+2*(yes-t), limit.MaxTime)
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
