package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// A leg is charged before anybody knows whether the operation will be admitted everywhere, and never ends by itself:
// only home's ruling, committed in home's log, ends it. So the worst that a lost message or a dead coordinator can do is
// to hold units back, until the leg asks home for itself.
//
// A leg is named by the place of its charge, and a ruling lists the places that it covers. So a message that comes very
// late can neither release nor confirm another charge than the one it was about.

const (
	// operationKept is how long the shards remember an operation at least when it has ended: a copy of one of its
	// messages that comes late is met. One that comes later still finds nothing, and does no harm either.
	operationKept = limit.Span(60e6)
	// operationIDMax bounds an id, which is part of a record's key.
	operationIDMax = 128
	// askAgain is how long a leg or a ruling waits before it tries once more.
	askAgain = limit.Span(2e6)
)

// keepFor is how long an operation's records are kept when it has ended. No client asks again with an id that the
// coordinator has drawn.
func (e *evaluation) keepFor(r *Request) limit.Span {
	if r.Operation.Drawn {
		return operationKept
	}
	return max(operationKept, e.retention(r))
}

// operate answers a message of an operation on several shards. Each says all that it needs and may be asked again at
// will: what it does is done once, by its own records. So none of them needs a session.
func (e *evaluation) operate(r *Request) Result {
	if id := r.Operation.ID; e.at.Shard == System || id == "" || len(id) > operationIDMax {
		return Result{Err: Invalidf("operation", "has no id, or one of more than %d bytes, or came to the system shard", operationIDMax)}
	}
	switch r.Op {
	case AskHome:
		return e.askHome(r)
	case Charge:
		return e.chargeLeg(r)
	case Conclude:
		return e.concludeHome(r)
	case ResolveHome:
		return e.resolveHome(r)
	case FinishLeg:
		return e.finishLeg(r)
	case Acknowledge:
		return e.acknowledge(r)
	case Settle:
		return e.settleHome(r)
	}
	return Result{Err: &Error{Code: NotBuilt, Message: fmt.Sprintf(
		"operation %d is no part of one on several shards, or not known to this version", r.Op)}}
}

func (e *evaluation) leg(key string) *leg {
	record, found := e.lookup(key)
	if !found || record.Value == nil {
		return nil
	}
	l, err := decodeLeg(record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	return l
}

// writeLeg keeps an open leg for ever, and one that has ended for as long as its decision may be refunded.
func (e *evaluation) writeLeg(key string, l *leg) {
	forgetAt := limit.Forever
	if l.state.ended() {
		forgetAt, l.due = e.at.Now+limit.Time(l.keep), 0
		l.answer = l.answer.bare()
	}
	if l.state == legReleased && l.drawn {
		forgetAt = e.at.Now + limit.Time(operationKept) // there is no decision, and nobody asks again
	}
	e.write(Put{Key: key, Record: Record{Value: l.encode(), ForgetAt: forgetAt}})
}

var errOperationEnded = &Error{Code: TooLate, Message: "the operation has ended: this message of it came too late"}

func idReused(id string) *Error {
	return &Error{Code: IDReused, Field: "idempotency_id",
		Message: fmt.Sprintf("%q was used for another request; a new request needs a new id", id)}
}

// chargeLeg decides and charges the entries that live here. Denied, nothing is charged and nothing remembered. A charge
// that has ended is never answered as if it were open.
func (e *evaluation) chargeLeg(r *Request) Result {
	o := r.Operation
	key := e.operationKey(legRecord, r)
	if l := e.leg(key); l != nil {
		switch {
		case l.state.ended():
			return Result{Err: errOperationEnded}
		case l.fingerprint != o.Fingerprint:
			return Result{Err: idReused(o.ID)}
		}
		d := l.answer
		d.Replayed = true
		return Result{Decision: d}
	}
	if e.view.Full() {
		return Result{Err: e.full()}
	}
	part, result := e.takePart(r)
	if result.Err != nil || !result.Decision.Allowed {
		return result
	}
	e.writeLeg(key, &leg{state: legOpen, due: e.at.Now + limit.Time(o.TTL), drawn: o.Drawn, home: o.Home,
		fingerprint: o.Fingerprint, keep: max(operationKept, e.retention(r)), answer: result.Decision, entries: part})
	return result
}

// finishLeg does with the leg what home has ruled, once, and says so. Only an open charge that the ruling is about
// moves.
func (e *evaluation) finishLeg(r *Request) Result {
	key := e.operationKey(legRecord, r)
	l := e.leg(key)
	d := e.newDecision()
	switch mine := l != nil && l.mine(r); {
	case l != nil && l.state == legCommitted && r.Operation.Verdict.State == OperationSettled && (mine || unplaced(r)):
		return e.settleLeg(key, r, l) // a decision is refunded after it was confirmed
	case mine && l.state.ended():
		return Result{Decision: d}
	case l == nil && r.Operation.Verdict.State == OperationAborted:
		e.leaveTombstone(key, r)
		return Result{Decision: d}
	case !mine:
		return Result{Decision: d}
	}
	switch r.Operation.Verdict.State {
	case OperationAborted:
		e.endPart(r.Namespace, r.Operation.ID, l.entries, true)
		l.state = legReleased
	case OperationCommitted:
		e.endPart(r.Namespace, r.Operation.ID, l.entries, false)
		l.state = legCommitted
	case OperationHeld:
		l.state, l.due = legHeld, e.at.Now+limit.Time(r.Operation.Verdict.Expires+askAgain)
	case OperationSettled:
		return e.settleLeg(key, r, l)
	default:
		return Result{Err: Invalidf("operation.verdict", "is not known to this version")}
	}
	e.writeLeg(key, l)
	return Result{Decision: d}
}

// mine reports whether a verdict is about this charge.
func (l *leg) mine(r *Request) bool {
	return len(r.Operation.Legs) == 1 && placeOf(&r.Operation.Legs[0].Decision) == placeOf(&l.answer)
}

// unplaced reports whether a verdict does not say where the leg was charged: home had no reason to remember that when the
// decision was refunded.
func unplaced(r *Request) bool {
	return len(r.Operation.Legs) == 1 && placeOf(&r.Operation.Legs[0].Decision) == place{}
}

// leaveTombstone remembers a verdict on a charge of which nothing is known: one that comes late must not wait for a
// verdict that has been and gone.
func (e *evaluation) leaveTombstone(key string, r *Request) {
	o := r.Operation
	e.writeLeg(key, &leg{state: legReleased, drawn: o.Drawn, home: o.Home, fingerprint: o.Fingerprint, keep: e.keepFor(r)})
}
