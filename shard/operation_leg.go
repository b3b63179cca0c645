package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// A leg is charged before it is known whether the operation will be admitted everywhere, and it never ends on its own:
// only home's ruling, committed in home's log, ends it. So the worst effect of a lost message or a dead coordinator is
// that units stay held until the leg asks home.
//
// A leg is named by the place of its charge, and a ruling lists the places that it covers. So a very late message can
// neither release nor confirm any charge other than its own.

const (
	// operationKept is how long the shards remember an ended operation at least, so that late copies of its messages
	// are recognized. A still later copy finds nothing, which is also harmless.
	operationKept = limit.Span(60e6)
	// operationIDMax bounds an id, in bytes. The id is part of a record's key.
	operationIDMax = 128
	// askAgain is how long a leg or a ruling waits before it retries.
	askAgain = limit.Span(2e6)
)

// legEvaluation is the evaluation of a message to a leg of an operation.
type legEvaluation struct {
	partEvaluation
	key string // of the leg's record
}

// onLeg returns the evaluation of a message to a slot of this shard as a leg.
func (e partEvaluation) onLeg(at slot.ID) legEvaluation {
	return legEvaluation{e, string(appendIDKey(nil, legRecord, e.r.Namespace, at, e.r.Operation.ID))}
}

// leg reads the charge for an operation. It returns nil if nothing is remembered.
func (e legEvaluation) leg() (*leg, *Error) {
	record, found := e.lookup(e.key)
	if !found {
		return nil, nil
	}
	l, err := decodeLeg(record.Value)
	if err != nil {
		return nil, unreadable("operation", "what was charged for it", err)
	}
	return l, nil
}

// writeLeg keeps an open leg forever, and an ended one for as long as its decision can be refunded. A settled leg keeps
// the statuses of the settlement, which may be requested again.
func (e legEvaluation) writeLeg(l *leg) {
	forgetAt := limit.Forever
	if l.state.ended() {
		forgetAt, l.due = e.at.Now+limit.Time(l.keep), 0
		settled := l.answer.Limits
		if l.answer = l.answer.bare(); l.state == legSettled {
			l.answer.Limits = settled
		}
	}
	if l.state == legReleased && l.drawn {
		forgetAt = e.at.Now + limit.Time(operationKept) // there is no decision to ask for again
	}
	e.write(Put{Key: e.key, Record: Record{Value: l.encode(), ForgetAt: forgetAt}})
}

// chargeLeg decides and charges the entries of this shard. After a denial nothing is charged or remembered. A charge
// that has ended is never answered as if it were open.
func (e legEvaluation) chargeLeg() Result {
	o := e.r.Operation
	l, err := e.leg()
	if err != nil {
		return Result{Err: err}
	}
	if l != nil {
		switch {
		//mutant:charge-answered-after-release 2
		case l.state.ended():
			return Result{Err: errOperationEnded}
		case l.fingerprint != o.Fingerprint:
			return Result{Err: idReused(o.ID)}
		}
		d := l.answer
		d.Replayed = true
		return Result{Decision: d}
	}
	if err := e.usedHere(); err != nil {
		return Result{Err: err}
	}
	if err := e.crowdedBy(e.r); err != nil {
		return Result{Err: err}
	}
	part, result := e.takePart()
	if result.Err != nil || !result.Decision.Allowed {
		return result
	}
	e.writeLeg(&leg{state: legOpen, due: e.at.Now + limit.Time(o.TTL), drawn: o.Drawn, home: o.Home,
		fingerprint: o.Fingerprint, keep: max(operationKept, e.retention(e.r)), answer: result.Decision, entries: part})
	return result
}

// finishLeg executes home's ruling on the leg, once, and acknowledges it. It affects only an open charge that the
// ruling covers.
func (e legEvaluation) finishLeg() Result {
	l, err := e.leg()
	if err != nil {
		return Result{Err: err}
	}
	d := e.newDecision()
	switch mine := l != nil && l.mine(e.r); {
	case l != nil && l.state == legCommitted && e.r.Operation.Verdict.State == OperationSettled &&
		(mine || unplaced(e.r)):
		return e.settleLeg(l) // a decision is refunded after it was confirmed
	case l != nil && l.state == legSettled && e.r.Operation.Verdict.State == OperationSettled &&
		(mine || unplaced(e.r)):
		d.Replayed, d.Limits = true, l.answer.Limits
		return Result{Decision: d}
	case mine && l.state.ended():
		return Result{Decision: d}
	case l == nil && e.r.Operation.Verdict.State == OperationAborted:
		e.leaveTombstone() //mutant:no-tombstone
		return Result{Decision: d}
	case !mine:
		return Result{Decision: d}
	}
	switch e.r.Operation.Verdict.State {
	case OperationAborted:
		err = e.endPart(l.entries, true) //mutant:aborted-leg-keeps-its-holds
		l.state = legReleased
	case OperationCommitted:
		err = e.endPart(l.entries, false)
		l.state = legCommitted
	case OperationHeld:
		l.state, l.due = legHeld, e.at.Now+limit.Time(e.r.Operation.Verdict.Expires)
		e.expectEnd(l)
	case OperationSettled:
		return e.settleLeg(l) //mutant:leg-keeps-what-was-settled
	default:
		return Result{Err: Invalidf("operation.verdict", "is not known to this version")}
	}
	if err != nil {
		return Result{Err: err}
	}
	e.writeLeg(l)
	return Result{Decision: d}
}

// expectEnd sets in the leg's holds when home's hold will end, so that a denial can tell how long to wait. Only home
// ends them.
func (e legEvaluation) expectEnd(l *leg) {
	e.chargesOf(l.entries)
	for i := range e.charges {
		e.charges[i].counter.extendHold(e.nameOfHolds(), l.due)
		e.touch(e.charges[i].counter)
	}
}

// mine reports whether a verdict is about this charge.
func (l *leg) mine(r *Request) bool {
	//mutant:verdict-for-any-charge
	return len(r.Operation.Legs) == 1 && placeOf(&r.Operation.Legs[0].Decision) == placeOf(&l.answer)
}

// unplaced reports whether a verdict does not contain the place of the leg's charge: home no longer had to remember it
// when the decision was refunded.
func unplaced(r *Request) bool {
	return len(r.Operation.Legs) == 1 && placeOf(&r.Operation.Legs[0].Decision) == place{}
}

// leaveTombstone remembers a verdict on an unknown charge, so that a charge that arrives later does not wait for a
// verdict that has already passed.
func (e legEvaluation) leaveTombstone() {
	o := e.r.Operation
	if e.room.full() {
		return // no charge is accepted now, and a later one asks home itself
	}
	e.writeLeg(&leg{state: legReleased, drawn: o.Drawn, home: o.Home, fingerprint: o.Fingerprint, keep: e.keepFor()})
}
