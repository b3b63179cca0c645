package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The part of an operation that one shard decides: the request's entries on this shard, as if they were all.

// partEvaluation is the evaluation of a message of an operation on several shards, as far as it is the same on all of
// them.
type partEvaluation struct {
	*evaluation
	r *Request
}

// nameOfHolds returns the name of the operation's holds.
func (e partEvaluation) nameOfHolds() string { return operationHold(e.r.Operation.ID) }

// keepFor returns how long an operation's records are kept after its end. No client asks again with an id that the
// coordinator drew.
func (e partEvaluation) keepFor() limit.Span {
	if e.r.Operation.Drawn {
		return operationKept
	}
	keep := max(operationKept, e.retention(e.r))
	for i := range e.r.Operation.Legs { // home remembers the id for the retention of the legs' policies, too
		for _, status := range e.r.Operation.Legs[i].Decision.Limits {
			if p, ok := e.policies.Lookup(status.Policy); ok {
				keep = max(keep, p.Retention)
			}
		}
	}
	return keep
}

// part returns the request that a shard decides for the whole.
func (r *Request) part(op Op) Request {
	p := *r
	p.Op, p.Operation, p.NotAfter = op, nil, 0
	if !r.Operation.Drawn {
		p.ID = r.Operation.ID // its time may show that it is too old
	}
	return p
}

// takePart decides the entries of this shard and charges them if they are admitted. The units that a leg takes, or that
// home takes for a Reserve, are a hold until the operation's outcome is known. It returns the entries with the taken
// units. A denial counts nothing, since it may be decided more than once: policies with count_denied are refused.
func (e partEvaluation) takePart() ([]Entry, Result) {
	p := e.r.part(e.r.Operation.Op)
	if e.r.Op == Charge && p.Op == Settle {
		return e.takeExcess()
	}
	switch p.Op {
	case Check, Count, Partial:
	case Reserve:
		if p.Hold == nil || p.Hold.TTL <= 0 || p.Hold.TTL > MaxHoldTTL {
			return nil, Result{Err: Invalidf("ttl", "is missing, or outside 1 us to 31 days")}
		}
	default:
		return nil, Result{Err: Invalidf("operation.op", "%d is none of several shards", p.Op)}
	}
	if err := e.outdated(&p); err != nil {
		return nil, Result{Err: err}
	}
	d := e.newDecision()
	if err := e.decideEntries(&p, p.Op, &d); err != nil {
		return nil, Result{Err: err}
	}
	if err := e.checkIDTime(&p); err != nil {
		return nil, Result{Err: err}
	}
	if err := e.charges.countDeniedProblem(p.Op); err != nil {
		return nil, Result{Err: err}
	}
	if !d.Allowed {
		e.keepNumbers()
		e.charges.undo(&p, p.Op, &d, e.at.Now)
		return nil, Result{Decision: e.shown(&p, d)}
	}
	if err := e.charges.roomForHolds(); err != nil {
		return nil, Result{Err: err}
	}
	if e.charges.heldUnder(e.nameOfHolds()) {
		return nil, Result{Err: idReused(e.r.Operation.ID)}
	}
	e.count(&d)
	p.Entries = Taken(&p, &d)
	if p.Op == Reserve {
		e.holdPart(&p, &d)
		return p.Entries, Result{Decision: e.shown(&p, d)}
	}
	d = e.shown(&p, d) // as after home's decision: allowed units are no longer held then
	if e.r.Op == Charge {
		e.holdPart(&p, &d)
	}
	return p.Entries, Result{Decision: d}
}

// countDeniedProblem refuses an operation under a policy that counts denials. Each shard would count on its own, and an
// operation may be decided more than once before it is denied. An error is better than silently disabling a guard
// against guessing. An operation that counts without deciding is never denied.
func (cs charges) countDeniedProblem(op Op) *Error {
	for i := range cs {
		if p := cs[i].policy; op != Count && p.CountDenied && !cs[i].looks { //mutant:denial-counter-off-on-many-shards
			return Invalidf(fmt.Sprintf("entries[%d].policy", i),
				"%q has count_denied, and the request's keys live on several shards, "+
					"where a denial cannot be counted: give all of its keys one {tag}, or ask for this entry alone",
				p.Name)
		}
	}
	return nil
}

// heldUnder reports whether a counter already has a hold of that name. If a client uses one id for two operations, a
// counter can meet it twice: its shard may be the home of one and a leg of the other, and these records do not know of
// each other. No counter may have two holds of one name.
func (cs charges) heldUnder(name string) bool {
	return slices.ContainsFunc(cs, func(ch charge) bool { return ch.counter.extras.placeOfHold(name) >= 0 })
}

// lookAtPart decides the entries of this shard and counts nothing. Here too, a policy that counts denials is refused.
func (e partEvaluation) lookAtPart() Result {
	p := e.r.part(Peek)
	if e.r.Operation.Op == Partial {
		p.Entries = append([]Entry(nil), p.Entries...)
		for i := range p.Entries {
			p.Entries[i].Cost = 1
		}
	}
	d := e.newDecision()
	if err := e.decideEntries(&p, Peek, &d); err != nil {
		return Result{Err: err}
	}
	if err := e.charges.countDeniedProblem(e.r.Operation.Op); err != nil {
		return Result{Err: err}
	}
	e.keepNumbers()
	return Result{Decision: e.shown(&p, d)}
}

// shown adds the effects of holds and blocks to a decision, and makes the waits of a denial exact.
func (e partEvaluation) shown(p *Request, d Decision) Decision {
	e.showExtras(&d)
	if !d.Allowed {
		e.exactWaits(p, p.Op, &d)
	}
	return d
}

// holdPart makes a hold of the taken units. Home's hold expires with its ruling. A leg's hold does not expire. It has
// the expected end of home's hold, which is unknown at first if the operation is not a Reserve.
func (e partEvaluation) holdPart(p *Request, d *Decision) {
	h := hold{name: e.nameOfHolds(), remote: e.r.Op == Charge, onExpire: policy.OnExpireCancel,
		expires: limit.MaxTime}
	if p.Op == Reserve {
		d.HoldExpires = e.at.Now + limit.Time(p.Hold.TTL)
		h.expires, h.onExpire = d.HoldExpires, p.Hold.OnExpire
	}
	counted := *d
	if p.Op == Count { // counted even past the quota
		counted.Limits = append([]LimitStatus(nil), d.Limits...)
		for i := range counted.Limits {
			counted.Limits[i].Allowed = true
		}
	}
	e.putHolds(p, &counted, h)
}

// chargesOf puts the counters of entries into e.charges, even if their policies or tiers no longer exist, and returns a
// decision with their statuses. The error concerns a key with an unreadable record.
func (e partEvaluation) chargesOf(entries []Entry) (Decision, *Error) {
	r := Request{Op: Settle, Namespace: e.r.Namespace, Entries: entries}
	d := e.newDecision()
	err := e.decideEntries(&r, Settle, &d)
	return d, err
}

// endPart ends the holds of an operation's entries. With back their units are given back, else they are spent.
func (e partEvaluation) endPart(entries []Entry, back bool) *Error {
	if _, err := e.chargesOf(entries); err != nil {
		return err
	}
	for i := range e.charges {
		e.charges[i].counter.endHold(e.nameOfHolds(), back, e.at.Now)
		e.touch(e.charges[i].counter)
	}
	return nil
}

// expirePart ends the holds of an operation's entries, each by its own OnExpire.
func (e partEvaluation) expirePart(entries []Entry) *Error {
	if _, err := e.chargesOf(entries); err != nil {
		return err
	}
	for i := range e.charges {
		c := e.charges[i].counter
		h, found := c.extras.findHold(e.nameOfHolds())
		if !found {
			continue
		}
		c.endHold(h.name, h.onExpire == policy.OnExpireCancel, e.at.Now)
		if h.onExpire == policy.OnExpireCommit {
			c.violate(e.at.Now)
		}
		e.touch(c)
	}
	return nil
}
