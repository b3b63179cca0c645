package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// A hold of an operation, or its decision, is settled as on one shard, but home alone says that it is, and how: once,
// and a hold's expiry by home's time. The legs do the same when they hear of it.

// settleHome settles the operation and what home has taken for it. The request has all its entries; each leg is named
// with the keys that live there.
func (e *evaluation) settleHome(r *Request) Result {
	if err := e.settlementProblem(r); err != nil {
		return Result{Err: err}
	}
	s, key := r.Settlement, e.operationKey(rulingRecord, r)
	u := e.ruling(key)
	if u != nil && u.state == OperationHeld && e.at.Now >= u.expires {
		e.expireRuling(key, r, u)
	}
	print := fingerprint(r)
	switch {
	case s.Overage == OverageReject:
		return Result{Err: Invalidf("commit.overage", "cannot be reject when the keys live on several shards: "+
			"a common {tag} in the keys places them together")}
	case u != nil && u.settled != nil && u.settled.fingerprint == print:
		d := u.settled.answer
		d.Replayed, d.Operation = true, u.verdict(r, e.at.Now)
		return Result{Decision: d}
	case u == nil && s.Target.Hold, u != nil && u.state != s.Target.stateBefore():
		return Result{Err: &Error{Code: HoldEnded, Field: s.Target.field(), Message: "has expired, was settled in another " +
			"way before, or never was: it ends once"}}
	case u == nil: // a decision whose operation nobody has reason to remember; its id is proof enough
		u = &ruling{keep: e.keepFor(r)}
		for _, l := range r.Operation.Legs {
			u.legs = append(u.legs, ruled{Leg: Leg{Shard: l.Shard, Allowed: true, Decision: l.Decision.bare()}})
		}
	}
	return e.settleRuling(key, r, u, print)
}

// stateBefore is the state of an operation that may be settled.
func (t *Target) stateBefore() OperationState {
	if t.Hold {
		return OperationHeld
	}
	return OperationCommitted
}

// settleRuling does at home what a settlement says, and rules that the legs do too.
func (e *evaluation) settleRuling(key string, r *Request, u *ruling, print uint64) Result {
	s := *r.Settlement
	entries, actual := partOf(r, func(key string) bool {
		return !slices.ContainsFunc(r.Operation.Legs, func(l Leg) bool { return l.has(key) })
	})
	d := e.chargesOf(r.Namespace, entries)
	forgetAt, err := e.mayStillSettle(&s.Target)
	if err != nil {
		return Result{Err: err}
	}
	s.Actual = actual
	if err := e.settleTaken(&Request{Entries: entries}, &s, operationHold(r.Operation.ID), s.Target.DecidedAt); err != nil {
		return Result{Err: err}
	}
	e.index++
	d.Index = e.index
	e.statuses(&d)
	if s.Action == ActionExtend {
		u.expires = e.at.Now + limit.Time(s.TTL)
		d.HoldExpires = u.expires
	} else {
		u.settle(&settled{print, Settlement{Action: s.Action, Overage: s.Overage}, d})
		u.until = max(u.until, forgetAt)
		u.nameParts(r)
	}
	e.writeRuling(key, u)
	d.Operation = u.verdict(r, e.at.Now)
	return Result{Decision: d}
}

// nameParts gives each leg its part of the settlement.
func (u *ruling) nameParts(r *Request) {
	for i := range u.legs {
		at := slices.IndexFunc(r.Operation.Legs, func(named Leg) bool { return named.Shard == u.legs[i].Shard })
		if at >= 0 {
			_, u.legs[i].actual = partOf(r, r.Operation.Legs[at].has)
		}
	}
}

// has reports whether a key is named among those of the leg.
func (l *Leg) has(key string) bool {
	return slices.ContainsFunc(l.Decision.Limits, func(s LimitStatus) bool { return s.Key == key })
}

// partOf takes some entries out of a settlement, and what was spent on them.
func partOf(r *Request, in func(key string) bool) (entries []Entry, actual []uint64) {
	for i := range r.Entries {
		if !in(r.Entries[i].Key) {
			continue
		}
		entries = append(entries, r.Entries[i])
		if r.Settlement.Actual != nil {
			actual = append(actual, r.Settlement.Actual[i])
		}
	}
	return entries, actual
}

// expireRuling settles a hold that nobody has settled in its time: what is home's at once, the legs when they hear of
// it.
func (e *evaluation) expireRuling(key string, r *Request, u *ruling) {
	e.expirePart(r.Namespace, r.Operation.ID, u.entries)
	u.settle(nil)
	e.writeRuling(key, u)
}

// settle makes a committed or held operation one that is settled, which every leg is still to hear.
func (u *ruling) settle(how *settled) {
	u.state, u.settled = OperationSettled, how
	for i := range u.legs {
		u.legs[i].pending = true
	}
}

// settleLeg does with the leg what home has settled. It is open or held, or was committed, and its decision is refunded.
func (e *evaluation) settleLeg(key string, r *Request, l *leg) Result {
	result := Result{Decision: e.newDecision()}
	if r.Operation.Verdict.Settled == nil {
		e.expirePart(r.Namespace, r.Operation.ID, l.entries)
	} else {
		result.Decision = e.settlePart(r, l)
	}
	l.state = legSettled
	e.writeLeg(key, l)
	return result
}

// settlePart does what home has settled with the units that the leg has taken: those of its holds or, if the operation was
// confirmed before, of its decision, while what its counters remember of resets is sure to be there.
func (e *evaluation) settlePart(r *Request, l *leg) Decision {
	s := *r.Operation.Verdict.Settled
	s.Target = Target{Hold: !l.state.ended(), DecidedAt: l.answer.DecidedAt}
	d := e.chargesOf(r.Namespace, l.entries)
	if _, err := e.mayStillSettle(&s.Target); err != nil {
		return d
	}
	if e.settleTaken(&Request{Entries: l.entries}, &s, operationHold(r.Operation.ID), l.answer.DecidedAt) != nil {
		return d // nothing is there that could be settled
	}
	e.index++
	d.Index = e.index
	e.statuses(&d)
	return d
}
