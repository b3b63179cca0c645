package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// A hold of an operation, or its decision, is settled as on one shard, but home alone decides that, and how: once, and
// a hold's expiry by home's time. The legs follow when they hear of it.

// settleOnce settles at most once for an id. A ruling also records what ended the operation; an extension leaves no
// other trace, and without an id needs a session.
func (e homeEvaluation) settleOnce() Result {
	if e.r.ID == "" {
		return e.settleHome()
	}
	key := string(appendAnswerKey(nil, e.r.Namespace, e.r.Operation.Home, e.r.ID))
	if record, found := e.lookup(key); found { //mutant:operation-extended-again
		result := e.replay(record.Value, e.r)
		result.Decision.Operation = e.r.held()
		if result.Err != nil || e.r.Settlement.Action == ActionExtend {
			return result
		}
	}
	var result Result
	if e.decidedAcross(e.r, e.r.Operation.Home, &result) { //mutant:settlement-takes-the-id-of-its-hold
		return result
	}
	if err := e.checkIDTime(e.r); err != nil {
		return Result{Err: err}
	}
	result = e.settleHome()
	if result.Err == nil && result.Decision.Index != 0 && !result.Decision.Replayed && !e.room.brimful() {
		e.record(key, e.r, &result.Decision)
	}
	return result
}

// held returns the verdict in the answer to a copy of an extension: it tells the legs nothing.
func (r *Request) held() *Verdict {
	return &Verdict{ID: r.Operation.ID, Home: r.Operation.Home, Known: true, State: OperationHeld}
}

// settleHome settles the operation and home's part of it. The request has all entries; each leg is named with the keys
// on its shard.
func (e homeEvaluation) settleHome() Result {
	s := e.r.Settlement
	u, err := e.ruling(e.key)
	if err == nil && u != nil && u.state == OperationHeld && e.at.Now >= u.expires {
		err = e.expireRuling(u)
	}
	if err != nil {
		return Result{Err: err}
	}
	print := Fingerprint(e.r)
	switch {
	case u != nil && u.settled != nil && u.settled.fingerprint == print:
		d := u.settled.answer
		d.Replayed, d.Operation = true, u.verdict(e.r, e.at.Now)
		return Result{Decision: d}
	case u == nil && s.Target.Hold, u != nil && u.state != s.Target.stateBefore():
		return Result{Err: errorf(HoldEnded, s.Target.field(),
			"has expired, was settled in another way before, or never was: it ends once")}
	case u == nil && e.lost(&s.Target) != nil: //mutant:lost-operation-refunded
		return Result{Err: e.lost(&s.Target)}
	case u == nil && e.room.full(): // it would add a record
		return Result{Err: e.full()}
	case u == nil: // a decision of an operation that no longer had to be remembered; its id is proof enough
		u = &ruling{keep: e.keepFor()}
		for _, l := range e.r.Operation.Legs {
			u.legs = append(u.legs, ruled{Leg: Leg{Slot: l.Slot, Allowed: true, Decision: l.Decision.bare()}})
		}
	}
	return e.settleRuling(u, print)
}

// stateBefore returns the state in which an operation may be settled.
func (t *Target) stateBefore() OperationState {
	if t.Hold {
		return OperationHeld
	}
	return OperationCommitted
}

// settleRuling executes a settlement at home, and rules that the legs do the same.
func (e homeEvaluation) settleRuling(u *ruling, print uint64) Result {
	s, at := *e.r.Settlement, e.r.atHome()
	entries, actual := partOf(e.r, at)
	d, err := e.chargesOf(entries)
	if err != nil {
		return Result{Err: err}
	}
	forgetAt, err := e.charges.mayStillSettle(&s.Target, e.at.Now)
	if err != nil {
		return Result{Err: err}
	}
	s.Actual = actual
	part, name := &Request{Entries: entries}, e.nameOfHolds()
	if s.Overage == OverageReject {
		if charged, err := e.excessFits(part, &s, print); err != nil {
			return Result{Err: err}
		} else if !charged {
			d.Operation = &Verdict{ID: e.r.Operation.ID, Home: e.r.Operation.Home, Known: true,
				State: s.Target.stateBefore()}
			return Result{Decision: d}
		}
	}
	if err := e.settleTaken(part, &s, name, s.Target.DecidedAt); err != nil {
		return Result{Err: err}
	}
	e.number(&d)
	e.statuses(&d)
	//mutant:excess-not-committed 3
	if e.r.Operation.Excess != nil {
		e.ruleExcess(OperationCommitted, print)
	}
	if s.Action == ActionExtend {
		u.expires = e.at.Now + limit.Time(s.TTL)
		d.HoldExpires = u.expires
	} else {
		u.settle(&settled{print, Settlement{Action: s.Action, Overage: s.Overage}, d})
		u.until = max(u.until, forgetAt)
		u.nameParts(e.r)
	}
	e.writeRuling(e.key, u)
	d.Operation = u.verdict(e.r, e.at.Now)
	return Result{Decision: d}
}

// nameParts gives each leg its part of the settlement.
func (u *ruling) nameParts(r *Request) {
	for i := range u.legs {
		at := slices.IndexFunc(r.Operation.Legs, func(named Leg) bool { return named.Slot == u.legs[i].Slot })
		if at >= 0 {
			_, u.legs[i].actual = partOf(r, r.Operation.Legs[at].has)
		}
	}
}

// has reports whether a key is among those of the leg.
func (l *Leg) has(key string) bool {
	return slices.ContainsFunc(l.Decision.Limits, func(s LimitStatus) bool { return s.Key == key })
}

// partOf selects entries of a settlement, with their actual costs.
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

// expireRuling settles a hold that was not settled in time: home's part at once, and the legs' parts when they hear of
// it.
func (e homeEvaluation) expireRuling(u *ruling) *Error {
	if err := e.expirePart(u.entries); err != nil {
		return err
	}
	u.settle(nil)
	e.writeRuling(e.key, u)
	return nil
}

// settle makes a committed or held operation a settled one, which every leg has yet to hear.
func (u *ruling) settle(how *settled) {
	u.state, u.settled = OperationSettled, how
	for i := range u.legs {
		u.legs[i].pending = true
	}
}

// settleLeg executes home's settlement on the leg. The leg is open or held, or was committed and its decision is
// refunded.
func (e legEvaluation) settleLeg(l *leg) Result {
	result := Result{Decision: e.newDecision()}
	if e.r.Operation.Verdict.Settled == nil {
		result.Err = e.expirePart(l.entries)
	} else {
		result.Decision, result.Err = e.settlePart(l)
	}
	if result.Err != nil {
		return Result{Err: result.Err}
	}
	l.state, l.answer.Limits = legSettled, result.Decision.Limits //mutant:given-back-twice
	e.writeLeg(l)
	return result
}

// settlePart applies home's settlement to the units that the leg has taken: those of its holds or, if the operation was
// confirmed before, of its decision, as long as the counters certainly still remember resets since then.
func (e legEvaluation) settlePart(l *leg) (Decision, *Error) {
	s := *e.r.Operation.Verdict.Settled
	s.Target = Target{Hold: !l.state.ended(), DecidedAt: l.answer.DecidedAt}
	l.dropForgotten(&s) //mutant:leg-refunds-a-forgotten-key
	d, err := e.chargesOf(l.entries)
	if err != nil {
		return d, err
	}
	if _, err := e.charges.mayStillSettle(&s.Target, e.at.Now); err != nil {
		return d, nil
	}
	s.leaveExcess(l.entries) //mutant:leg-settles-the-excess-again
	if e.settleTaken(&Request{Entries: l.entries}, &s, e.nameOfHolds(), l.answer.DecidedAt) != nil {
		return d, nil // there is nothing to settle
	}
	e.number(&d)
	e.statuses(&d)
	return d, nil
}
