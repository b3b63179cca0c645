package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// Home decides an operation in one entry of its log: its own entries, and with them the whole. A ruling is final.

// homeEvaluation is the evaluation of a message to the home of an operation.
type homeEvaluation struct {
	partEvaluation
	key string // of the ruling
}

// atHome returns the evaluation of a message to this shard as the home.
func (e partEvaluation) atHome() homeEvaluation {
	return homeEvaluation{e, e.rulingKey(e.r.Operation.Home, e.r.Operation.ID)}
}

// rulingKey returns the key of the ruling of a slot on an operation.
func (e partEvaluation) rulingKey(at slot.ID, id string) string {
	return string(appendIDKey(nil, rulingRecord, e.r.Namespace, at, id))
}

// ruling reads the outcome of an operation. It returns nil if nothing is remembered.
func (e homeEvaluation) ruling(key string) (*ruling, *Error) {
	record, found := e.lookup(key)
	if !found {
		return nil, nil
	}
	u, err := decodeRuling(record.Value)
	if err != nil {
		return nil, unreadable("operation", "what became of it", err)
	}
	return u, nil
}

// writeRuling keeps a ruling for as long as a leg may need it, or a client may ask. Only a committed one must outlive
// its legs: an operation that home does not know was not committed.
func (e homeEvaluation) writeRuling(key string, u *ruling) {
	forgetAt := limit.Forever
	switch {
	case u.state == OperationHeld:
		u.due = u.expires
	case u.state == OperationSettled && u.settled == nil && u.isPending():
		u.due = e.at.Now // expired: nothing else tells the legs
	case u.state != OperationAborted && u.isPending(): //mutant:outcome-forgotten-early
		u.due = e.at.Now + limit.Time(askAgain)
	default:
		forgetAt, u.due = max(e.at.Now, u.until)+limit.Time(u.keep), 0
	}
	e.write(Put{Key: key, Record: Record{Value: u.encode(), ForgetAt: forgetAt}})
}

func (u *ruling) isPending() bool {
	return slices.ContainsFunc(u.legs, func(l ruled) bool { return l.pending })
}

// verdict returns the ruling as a Verdict.
func (u *ruling) verdict(r *Request, now limit.Time) *Verdict {
	v := &Verdict{ID: r.Operation.ID, Home: r.Operation.Home, Known: true, State: u.state}
	if u.state == OperationHeld {
		v.Expires = max(0, limit.Span(u.expires-now))
	}
	if u.settled != nil {
		v.Settled = new(u.settled.settlement)
	}
	for i := range u.legs {
		v.Legs = append(v.Legs, u.legs[i].Leg)
	}
	return v
}

// verdictFor returns the verdict on one charge. A charge that the ruling does not cover is aborted, regardless of
// others under the same id.
func (u *ruling) verdictFor(r *Request, asks *Leg, now limit.Time) *Verdict {
	v := u.verdict(r, now)
	if u.state == OperationAborted {
		return v
	}
	at := slices.IndexFunc(u.legs, func(l ruled) bool { return placeOf(&l.Decision) == placeOf(&asks.Decision) })
	if at < 0 { //mutant:unknown-charge-confirmed
		return &Verdict{ID: v.ID, Home: v.Home, Known: true, State: OperationAborted}
	}
	if v.Settled != nil {
		v.Settled.Actual = u.legs[at].actual
	}
	return v
}

// reply returns home's recorded answer to the whole request.
func (u *ruling) reply(r *Request, now limit.Time) Result {
	d := u.answer
	d.Replayed = true
	d.Operation = u.verdict(r, now)
	return Result{Decision: d}
}

// askHome returns the outcome of the operation, if home knows it.
func (e homeEvaluation) askHome() Result {
	if result, known := e.decidedAlone(); known {
		return result
	}
	if result, known := e.settledAlone(); known {
		return result
	}
	u, err := e.ruling(e.key)
	if err != nil {
		return Result{Err: err}
	}
	if u == nil {
		d := e.newDecision()
		d.Operation = &Verdict{ID: e.r.Operation.ID, Home: e.r.Operation.Home}
		return Result{Decision: d}
	}
	if u.fingerprint != e.r.Operation.Fingerprint {
		return Result{Err: idReused(e.r.Operation.ID)}
	}
	return u.reply(e.r, e.at.Now)
}

// concludeHome decides the whole operation, once.
func (e homeEvaluation) concludeHome() Result {
	o := e.r.Operation
	if result, known := e.decidedAlone(); known { //mutant:operation-counts-what-was-counted-alone
		return result
	}
	if u, err := e.ruling(e.key); err != nil {
		return Result{Err: err}
	} else if u != nil { //mutant:home-decides-twice //mutant:home-decides-twice-in-operations
		if u.fingerprint != o.Fingerprint {
			return Result{Err: idReused(o.ID)}
		}
		return u.reply(e.r, e.at.Now)
	}
	if e.r.NotAfter != 0 && e.at.Now > e.r.NotAfter { //mutant:home-decides-after-forgetting
		return Result{Err: errOperationEnded} // an aborted record may have existed and been forgotten
	}
	denied := slices.ContainsFunc(o.Legs, func(l Leg) bool { return !l.Allowed }) //mutant:home-ignores-the-legs
	charged := slices.ContainsFunc(o.Legs, func(l Leg) bool { return l.Allowed })
	u := &ruling{state: OperationAborted, drawn: o.Drawn, fingerprint: o.Fingerprint, keep: e.keepFor(),
		until: e.r.NotAfter}
	var result Result
	switch {
	case denied:
		result = e.lookAtPart()
		result.Decision.Allowed = false
	case e.crowdedBy(e.r) != nil:
		return Result{Err: e.crowdedBy(e.r)}
	default:
		u.entries, result = e.takePart()
	}
	if result.Err != nil {
		return result
	}
	d := &result.Decision
	u.rule(e.r, d)
	switch {
	case charged && e.room.brimful():
		return Result{Err: e.full()} // the charged legs ask again
	case d.Allowed || charged || !o.Drawn && !e.room.full():
		e.writeRuling(e.key, u)
	} // otherwise nothing is to be given back, and a retry is simply denied again
	d.Operation = u.verdict(e.r, e.at.Now)
	return result
}

// rule combines the answers of all shards into the outcome of the whole.
func (u *ruling) rule(r *Request, d *Decision) {
	u.answer = *d
	if d.Allowed {
		u.state = OperationCommitted
	}
	if d.Allowed && r.Hold != nil {
		u.state, u.expires = OperationHeld, d.HoldExpires
	}
	for _, l := range r.Operation.Legs {
		u.legs = append(u.legs, ruled{Leg: l, pending: u.state == OperationCommitted})
	}
	if u.state == OperationAborted {
		u.entries = nil
	}
}

// resolveHome returns the outcome of the operation, and finishes it here: an unknown operation is aborted from now on,
// and a hold past its expiry is settled.
func (e homeEvaluation) resolveHome() Result {
	o := e.r.Operation
	u, err := e.ruling(e.key)
	if err != nil {
		return Result{Err: err}
	}
	if e.r.NotAfter != 0 && e.at.Now > e.r.NotAfter {
		return Result{Err: errOperationEnded}
	}
	if u == nil {
		u = &ruling{state: OperationAborted, drawn: o.Drawn, fingerprint: o.Fingerprint, keep: e.keepFor()}
		for i := range o.Legs {
			// Until then, by home's time, home accepts a Conclude that lists this charge.
			u.until = max(u.until, o.Legs[i].Decision.DecidedAt+limit.Time(ConcludeWithin))
		}
		switch tooLate := len(o.Legs) > 0 && e.at.Now > u.until; {
		case tooLate && e.room.full(): // no Conclude is accepted any longer, so the record is not needed to refuse one
		case e.room.brimful():
			return Result{Err: e.full()} // the shard that asks will retry
		default:
			e.writeRuling(e.key, u) //mutant:home-aborts-no-unknown
		}
	}
	if u.state == OperationHeld && e.at.Now >= u.expires {
		if err := e.expireRuling(u); err != nil {
			return Result{Err: err}
		}
	}
	if o.Leg == o.Home || len(o.Legs) != 1 {
		return u.reply(e.r, e.at.Now)
	}
	d := e.newDecision()
	d.Operation = u.verdictFor(e.r, &o.Legs[0], e.at.Now)
	return Result{Decision: d}
}

// acknowledge records that a leg has executed the ruling. An acknowledgment of an earlier ruling is ignored.
func (e homeEvaluation) acknowledge() Result {
	u, err := e.ruling(e.key)
	if err != nil {
		return Result{Err: err}
	}
	if u != nil && u.state == e.r.Operation.Verdict.State {
		if at := slices.IndexFunc(u.legs, func(l ruled) bool {
			return l.Slot == e.r.Operation.Leg && l.pending
		}); at >= 0 {
			u.legs[at].pending = false
			e.writeRuling(e.key, u)
		}
	}
	return Result{Decision: e.newDecision()}
}
