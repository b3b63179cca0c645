package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The part of an operation that one shard decides: the request's entries that live here, as if they were all.

// part is the request that a shard decides for the whole.
func (r *Request) part(op Op) Request {
	p := *r
	p.Op, p.Operation, p.NotAfter = op, nil, 0
	if !r.Operation.Drawn {
		p.ID = r.Operation.ID // whose own time may say that it is too old
	}
	return p
}

// takePart decides the entries that live here and charges them if they are admitted. What a leg takes, and what home
// takes for a Reserve, is a hold until the operation says what becomes of it. It returns the entries with what was taken.
// A denial counts nothing, not even where a policy says count_denied: it may be decided more than once.
func (e *evaluation) takePart(r *Request) ([]Entry, Result) {
	p := r.part(r.Operation.Op)
	switch p.Op {
	case Check, Count, Partial:
	case Reserve:
		if p.Hold == nil || p.Hold.TTL <= 0 || p.Hold.TTL > MaxHoldTTL {
			return nil, Result{Err: Invalidf("ttl", "is missing, or outside 1 us to 31 days")}
		}
	default:
		return nil, Result{Err: Invalidf("operation.op", "%d is none of several shards", p.Op)}
	}
	d := e.newDecision()
	if err := e.decideEntries(&p, p.Op, &d); err != nil {
		return nil, Result{Err: err}
	}
	if err := e.checkIDTime(&p); err != nil {
		return nil, Result{Err: err}
	}
	if !d.Allowed {
		e.undo(&p, p.Op, &d)
		return nil, Result{Decision: e.shown(&p, d)}
	}
	if err := e.roomForHolds(); err != nil {
		return nil, Result{Err: err}
	}
	if e.heldUnder(operationHold(r.Operation.ID)) {
		return nil, Result{Err: idReused(r.Operation.ID)}
	}
	e.count(&d)
	p.Entries = Taken(&p, &d)
	if p.Op == Reserve {
		e.holdPart(r, &p, &d)
		return p.Entries, Result{Decision: e.shown(&p, d)}
	}
	d = e.shown(&p, d) // as it will be when home has decided: what is allowed is then held no more
	if r.Op == Charge {
		e.holdPart(r, &p, &d)
	}
	return p.Entries, Result{Decision: d}
}

// heldUnder reports whether a counter has a hold of that name already. An id that a client uses for two operations comes to
// one counter twice if the counter's shard is the home of one and a leg of the other: their records know nothing of each
// other, and no counter may have two holds of one name.
func (e *evaluation) heldUnder(name string) bool {
	for i := range e.charges {
		if _, found := e.charges[i].counter.findHold(name); found {
			return true
		}
	}
	return false
}

// lookAtPart decides the entries that live here and counts nothing.
func (e *evaluation) lookAtPart(r *Request) Result {
	p := r.part(Peek)
	if r.Operation.Op == Partial {
		p.Entries = append([]Entry(nil), p.Entries...)
		for i := range p.Entries {
			p.Entries[i].Cost = 1
		}
	}
	d := e.newDecision()
	if err := e.decideEntries(&p, Peek, &d); err != nil {
		return Result{Err: err}
	}
	return Result{Decision: e.shown(&p, d)}
}

// shown fills in what holds and blocks add to a decision.
func (e *evaluation) shown(p *Request, d Decision) Decision {
	if e.extras {
		e.showExtras(&d)
		if !d.Allowed {
			d.RetryAfter = e.wait(p, p.Op, -1)
		}
	}
	return d
}

// holdPart makes a hold of what was taken: one that does not expire here, since another record says when.
func (e *evaluation) holdPart(r, p *Request, d *Decision) {
	h := hold{name: operationHold(r.Operation.ID), remote: true, onExpire: policy.OnExpireCancel,
		expires: e.at.Now + limit.Time(r.Operation.TTL)}
	if p.Op == Reserve {
		d.HoldExpires = e.at.Now + limit.Time(p.Hold.TTL)
		h.expires, h.onExpire = d.HoldExpires, p.Hold.OnExpire
	}
	counted := *d
	if p.Op == Count { // counted whatever the limits said
		counted.Limits = append([]LimitStatus(nil), d.Limits...)
		for i := range counted.Limits {
			counted.Limits[i].Allowed = true
		}
	}
	e.putHolds(p, &counted, h)
}

// chargesOf brings the counters of entries into e.charges, whatever has become of their policies and tiers since, and
// returns a decision with their statuses.
func (e *evaluation) chargesOf(namespace string, entries []Entry) Decision {
	r := Request{Op: Settle, Namespace: namespace, Entries: append([]Entry(nil), entries...)}
	for i := range r.Entries {
		if p, ok := e.policyOf(&r.Entries[i]); ok {
			if _, ok := p.Resolve(r.Entries[i].Tier); !ok {
				r.Entries[i].Tier = ""
			}
		}
	}
	d := e.newDecision()
	if err := e.decideEntries(&r, Settle, &d); err != nil {
		panic("shard: entries of an operation that were charged cannot be found: " + err.Error())
	}
	return d
}

// endPart ends the holds of an operation's entries: with back their units are given back, else they are spent.
func (e *evaluation) endPart(namespace, id string, entries []Entry, back bool) {
	e.chargesOf(namespace, entries)
	for i := range e.charges {
		e.charges[i].counter.endHold(operationHold(id), back, e.at.Now)
		e.touch(e.charges[i].counter)
	}
}

// expirePart ends the holds of an operation's entries as each says what becomes of it when nobody settles it.
func (e *evaluation) expirePart(namespace, id string, entries []Entry) {
	e.chargesOf(namespace, entries)
	for i := range e.charges {
		c := e.charges[i].counter
		h, found := c.findHold(operationHold(id))
		if !found {
			continue
		}
		c.endHold(h.name, h.onExpire == policy.OnExpireCancel, e.at.Now)
		if h.onExpire == policy.OnExpireCommit {
			c.violate(e.at.Now)
		}
		e.touch(c)
	}
}
