package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// Home decides an operation in one entry of its log: its own entries, and with them the whole. What it has ruled is
// never ruled again, whoever asks.

func (e *evaluation) ruling(key string) *ruling {
	record, found := e.lookup(key)
	if !found || record.Value == nil {
		return nil
	}
	u, err := decodeRuling(record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	return u
}

// writeRuling keeps a ruling for as long as a leg may need it, or a client ask. Only what is committed must outlive its
// legs: of an operation that home does not know nothing was committed.
func (e *evaluation) writeRuling(key string, u *ruling) {
	forgetAt := limit.Forever
	switch {
	case u.state == OperationHeld:
		u.due = u.expires
	case u.state == OperationSettled && u.settled == nil && u.isPending():
		u.due = e.at.Now // expired: nobody else tells the legs
	case u.state != OperationAborted && u.isPending():
		u.due = e.at.Now + limit.Time(askAgain)
	default:
		forgetAt, u.due = max(e.at.Now, u.until)+limit.Time(u.keep), 0
	}
	e.write(Put{Key: key, Record: Record{Value: u.encode(), ForgetAt: forgetAt}})
}

func (u *ruling) isPending() bool {
	return slices.ContainsFunc(u.legs, func(l ruled) bool { return l.pending })
}

// verdict is what the ruling says.
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

// verdictFor is what the ruling says to one charge: one that it does not cover is aborted, whatever became of others
// under the same id.
func (u *ruling) verdictFor(r *Request, asks *Leg, now limit.Time) *Verdict {
	v := u.verdict(r, now)
	if u.state == OperationAborted {
		return v
	}
	at := slices.IndexFunc(u.legs, func(l ruled) bool { return placeOf(&l.Decision) == placeOf(&asks.Decision) })
	if at < 0 {
		return &Verdict{ID: v.ID, Home: v.Home, Known: true, State: OperationAborted}
	}
	if v.Settled != nil {
		v.Settled.Actual = u.legs[at].actual
	}
	return v
}

// reply is the recorded answer to the whole request, as far as home gives it.
func (u *ruling) reply(r *Request, now limit.Time) Result {
	d := u.answer
	d.Replayed = true
	d.Operation = u.verdict(r, now)
	return Result{Decision: d}
}

// askHome tells what became of the operation, if anything did.
func (e *evaluation) askHome(r *Request) Result {
	u := e.ruling(e.operationKey(rulingRecord, r))
	if u == nil {
		d := e.newDecision()
		d.Operation = &Verdict{ID: r.Operation.ID, Home: r.Operation.Home}
		return Result{Decision: d}
	}
	if u.fingerprint != r.Operation.Fingerprint {
		return Result{Err: idReused(r.Operation.ID)}
	}
	return u.reply(r, e.at.Now)
}

// concludeHome decides the whole operation, once.
func (e *evaluation) concludeHome(r *Request) Result {
	o := r.Operation
	key := e.operationKey(rulingRecord, r)
	if u := e.ruling(key); u != nil {
		if u.fingerprint != o.Fingerprint {
			return Result{Err: idReused(o.ID)}
		}
		return u.reply(r, e.at.Now)
	}
	if r.NotAfter != 0 && e.at.Now > r.NotAfter {
		return Result{Err: errOperationEnded} // a record that said "aborted" may have come and gone
	}
	denied := slices.ContainsFunc(o.Legs, func(l Leg) bool { return !l.Allowed })
	charged := slices.ContainsFunc(o.Legs, func(l Leg) bool { return l.Allowed })
	u := &ruling{state: OperationAborted, drawn: o.Drawn, fingerprint: o.Fingerprint, keep: e.keepFor(r), until: r.NotAfter}
	var result Result
	switch {
	case denied:
		result = e.lookAtPart(r)
		result.Decision.Allowed = false
	case e.view.Full():
		return Result{Err: e.full()}
	default:
		u.entries, result = e.takePart(r)
	}
	if result.Err != nil {
		return result
	}
	d := &result.Decision
	u.rule(r, d)
	if d.Allowed || charged || !o.Drawn {
		e.writeRuling(key, u)
	} // else there is nothing to give back and nobody to ask again
	d.Operation = u.verdict(r, e.at.Now)
	return result
}

// rule makes of the answers of all shards what becomes of the whole.
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

// resolveHome says what became of the operation, and has it end here: if home knows nothing it is aborted from now on,
// and a hold that is past its time is settled.
func (e *evaluation) resolveHome(r *Request) Result {
	o := r.Operation
	key := e.operationKey(rulingRecord, r)
	u := e.ruling(key)
	if r.NotAfter != 0 && e.at.Now > r.NotAfter {
		return Result{Err: errOperationEnded}
	}
	if u == nil {
		u = &ruling{state: OperationAborted, drawn: o.Drawn, fingerprint: o.Fingerprint, keep: e.keepFor(r)}
		for i := range o.Legs {
			// A Conclude that lists this charge is taken until then, by home's time.
			u.until = max(u.until, o.Legs[i].Decision.DecidedAt+limit.Time(ConcludeWithin))
		}
		e.writeRuling(key, u)
	}
	if u.state == OperationHeld && e.at.Now >= u.expires {
		e.expireRuling(key, r, u)
	}
	if o.Leg == o.Home || len(o.Legs) != 1 {
		return u.reply(r, e.at.Now)
	}
	d := e.newDecision()
	d.Operation = u.verdictFor(r, &o.Legs[0], e.at.Now)
	return Result{Decision: d}
}

// acknowledge notes that a leg has done what was ruled. An acknowledgement of an earlier ruling says nothing.
func (e *evaluation) acknowledge(r *Request) Result {
	key := e.operationKey(rulingRecord, r)
	u := e.ruling(key)
	if u != nil && u.state == r.Operation.Verdict.State {
		if at := slices.IndexFunc(u.legs, func(l ruled) bool { return l.Shard == r.Operation.Leg && l.pending }); at >= 0 {
			u.legs[at].pending = false
			e.writeRuling(key, u)
		}
	}
	return Result{Decision: e.newDecision()}
}
