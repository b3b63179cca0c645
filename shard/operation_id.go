package shard

import (
	"slices"
	"unsafe"

	"github.com/stint-io/stint/shard/slot"
)

// An id belongs to one request, whether that needs one shard or several: this may change between a request and its
// copy, when a policy gets or loses a parent. The lowest slot of the keys that the client has named is the home of the
// request in both cases, and has either a ruling or the answer of a request of one shard.

// ErrGivenUp answers the id of an operation that was aborted before home decided it.
var ErrGivenUp = &Error{Code: Unavailable, Field: "idempotency_id", Message: "the operation was given up " +
	"before it was decided, since its coordinator fell silent; nothing was counted; ask again with a new id"}

// decidedAcross answers a request of this shard alone if an operation has used its id.
func (e *evaluation) decidedAcross(r *Request, at slot.ID, answer *Result) bool {
	if !e.knows(rulingRecord, r, at) && !e.knows(legRecord, r, at) {
		return false // nearly always, so it allocates nothing
	}
	about := *r
	about.Operation = &Operation{ID: r.ID, Home: at}
	here := partEvaluation{e, &about}.atHome()
	u, err := here.ruling(here.key)
	switch {
	case err != nil:
		*answer = Result{Err: err}
	case u == nil:
		answer.Err = here.usedByLeg() //mutant:id-of-a-leg-is-free
	case !r.isOf(u.fingerprint):
		answer.Err = idReused(r.ID)
	case u.state == OperationAborted && len(u.legs) == 0:
		answer.Err = ErrGivenUp
	default:
		*answer = u.reply(&about, e.at.Now)
		d := &answer.Decision
		d.Limits = slices.Clip(d.Limits)
		for i := range u.legs {
			d.Join(&u.legs[i].Leg)
			d.Limits = append(d.Limits, u.legs[i].Decision.Limits...)
		}
	}
	return u != nil || answer.Err != nil //mutant:operation-counted-again-alone
}

// knows reports whether there is a record of an operation with a request's id.
func (e *evaluation) knows(kind byte, r *Request, at slot.ID) bool {
	e.scratch = appendIDKey(e.scratch[:0], kind, r.Namespace, at, r.ID)
	_, found := e.lookup(unsafe.String(unsafe.SliceData(e.scratch), len(e.scratch))) // a View does not keep the key
	return found
}

// usedByLeg refuses an id under which the home's slot is charged for an operation of another home.
func (e partEvaluation) usedByLeg() *Error {
	l, err := e.onLeg(e.r.Operation.Home).leg()
	if err == nil && l != nil && l.state != legReleased {
		err = idReused(e.r.Operation.ID)
	}
	return err
}

// decidedAlone answers the home's part of an operation if a request of this shard alone has used its id.
func (e homeEvaluation) decidedAlone() (Result, bool) {
	if e.r.Operation.Drawn {
		return Result{}, false
	}
	record, found := e.lookup(string(appendAnswerKey(nil, e.r.Namespace, e.r.Operation.Home, e.r.Operation.ID)))
	if !found {
		err := e.usedByLeg()
		return Result{Err: err}, err != nil
	}
	of := *e.r
	of.ID = of.Operation.ID
	result := e.replay(record.Value, &of)
	return result, result.Err != errInParts
}

// settledAlone answers a settlement whose keys have parted since one shard has executed it.
func (e homeEvaluation) settledAlone() (result Result, known bool) {
	if e.r.Settlement == nil {
		return Result{}, false
	}
	t := &e.r.Settlement.Target
	record, found := e.lookup(endKey(e.r.Operation.Home, holdName(t.Position, t.Index)))
	if found {
		result = settledBefore(record.Value, e.r)
	}
	return result, found && result.Err != errInParts //mutant:part-taken-for-the-whole
}

// usedHere refuses a charge if its id belongs to a request that has its home in the slot of the leg.
func (e legEvaluation) usedHere() *Error {
	if o := e.r.Operation; !o.Drawn {
		_, alone := e.lookup(string(appendAnswerKey(nil, e.r.Namespace, o.Leg, o.ID)))
		u, err := e.atHome().ruling(e.rulingKey(o.Leg, o.ID))
		if err != nil || !alone && (u == nil || u.state == OperationAborted) {
			return err
		}
		return idReused(o.ID)
	}
	return nil
}
