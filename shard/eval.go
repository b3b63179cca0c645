package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Evaluate decides requests in order at one instant. It returns an answer to each, and the effects: one Put for each
// key with a changed record. It is pure: it reads only its arguments and changes none of them.
//
// When the effects have grown to an entry's size it stops. The answers are then those of the first requests, at least
// one, and the rest belong in the next batch.
func Evaluate(view View, policies *policy.Set, requests []Request, at Stamp) ([]Result, []Put) {
	results, puts, fault := evaluate(view, policies, requests, at)
	if fault == nil {
		return results, puts
	}
	return evaluateAround(view, policies, requests, at, len(results)-1, fault)
}

// evaluate is Evaluate without recovery. If a defect of this package causes a panic, fault is set: the results are then
// those up to the request that panicked, and none of them, nor any effect, may be used. Only the evaluation's own data
// was changed.
func evaluate(
	view View, policies *policy.Set, requests []Request, at Stamp,
) (results []Result, puts []Put, fault *Error) {
	e := evaluation{batch: batch{view: view, policies: policies, at: at, room: view.Room(),
		slotted: view.HasSlotRecords()}}
	e.useInitial()
	e.next, e.charges = e.first.next[:0], e.first.charges[:0]
	decided := 0
	defer func() {
		if p := recover(); p != nil {
			results, puts, fault = results[:min(decided+1, len(results))], nil, faultOf(p)
		}
	}()
	results = make([]Result, len(requests))
	for ; decided < len(requests); decided++ {
		if decided > 0 && (e.bytes > MaxEntryBytes-MaxEntryBytes/8 ||
			//mutant:forget-misses-its-batch
			requests[decided].Op == Forget || requests[decided-1].Op == Forget || // a Forget reads what is in the view
			// A correction has a revision of its own.
			//mutant:corrections-share-a-revision
			requests[decided].Op == CorrectUsage || requests[decided-1].Op == CorrectUsage ||
			//mutant:pages-share-a-batch
			requests[decided-1].Op == ReadUsage || // nothing is installed while it runs
			// A step of a move reads what is in the view, and changes the owner of a slot.
			//mutant:frozen-for-the-next-batch
			requests[decided].Op == MoveSlot || requests[decided-1].Op == MoveSlot) {
			break
		}
		e.decide(&requests[decided], &results[decided])
	}
	results = results[:decided]
	return results, e.puts(), nil
}

// evaluation evaluates the requests of a batch, one after the other. Its own fields are those of the current request.
type evaluation struct {
	batch
	next    []limit.State // in the order of the request's statuses
	charges charges       // in the order of its entries
	blocked bool          // it finds a block that denies
	extras  bool          // it has a counter with extras

	first struct { // initial memory for the slices above, enough for most requests
		next    [2]limit.State
		charges [2]charge
	}
}

// decide answers one request. A change in a session is first checked against the session's memory. A read never is, nor
// is a message that has records of its own. An answer is large, so the functions that handle every request fill it in
// place instead of returning it.
func (e *evaluation) decide(r *Request, answer *Result) {
	if r.Session != (Session{}) && r.Op.Changes() && !r.CountsOnce() {
		e.decideInSession(r, answer)
	} else {
		e.decideInTime(r, answer)
	}
}

// decideInTime decides a request that is new to its session, or has none, unless its NotAfter has passed. Messages of
// an operation have rules of their own.
func (e *evaluation) decideInTime(r *Request, answer *Result) {
	if r.Operation != nil {
		*answer = e.operate(r)
		return
	}
	if answer.Err = r.problem(); answer.Err != nil {
		return
	}
	if r.NotAfter != 0 && e.at.Now > r.NotAfter {
		answer.Err = &Error{Code: TooLate, Message: "the request arrived after its time; send it again"}
		return
	}
	switch r.Op {
	case Check, Peek, Get, Reset, Count, Partial, Reserve, Settle, SetUsed, AddUsed, Block, Unblock, PutOverride,
		DeleteOverride, ReadAudit, Tally, ReadTally, ReadUsage, ReadEventPage, ChangeEvents, NoteSpike, CorrectUsage,
		Lease:
		if answer.Err = r.termsProblem(); answer.Err != nil {
			return
		}
		e.decideKeys(r, answer)
	case OpenSession:
		*answer = e.openSession(r)
	case Forget:
		*answer = e.forget(r)
	case MoveSlot:
		*answer = e.move(r)
	case Fetch, Swap:
		*answer = documents{&e.batch}.decide(r)
	default:
		answer.Err = errorf(NotBuilt, "", "operation %d is not known to this version: run a newer one", r.Op)
	}
}

func (e *evaluation) decideKeys(r *Request, answer *Result) {
	switch {
	case e.at.Shard == System:
		answer.Err = Invalidf("", "the system shard holds documents and no keys")
	case r.ID == "":
		e.decideNew(r, answer)
	default:
		e.decideByID(r, answer)
	}
}

// decideNew decides a request that has no recorded answer.
func (e *evaluation) decideNew(r *Request, answer *Result) {
	switch r.Op {
	case ReadAudit:
		*answer = auditLog{&e.batch}.read()
		return
	case ReadUsage:
		*answer = e.usage(r)
		return
	case ReadEventPage, ChangeEvents, NoteSpike:
		*answer = e.events(r)
		return
	case Tally, ReadTally:
		if answer.Err = e.keyFormProblem(r); answer.Err == nil { //mutant:tally-of-the-other-form
			e.tally(r, answer)
		}
		return
	}
	d := &answer.Decision
	d.Allowed, d.DecidedAt, d.Position = true, e.at.Now, e.at.Position
	err := e.outdated(r)
	if err == nil {
		err = e.decideEntries(r, r.Op, d)
	}
	if err == nil {
		err = e.checkIDTime(r)
	}
	if err != nil {
		*answer = Result{Err: err}
		return
	}
	switch r.Op {
	case Check, Count, Partial, Reserve:
		if err := e.conclude(r, d); err != nil {
			*answer = Result{Err: err}
			return
		}
	case Peek:
		if !d.Allowed {
			e.exactWaits(r, Peek, d)
		}
	case Get:
		e.showFired(r, d)
		e.charges.showLeases(d)
	case Settle:
		*answer = e.settle(r, *d)
		return
	case Reset, SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride:
		*answer = e.adjust(r, *d)
		return
	case CorrectUsage:
		*answer = e.correct(r, *d)
		return
	case Lease:
		*answer = e.lease(r, *d)
		return
	}
	e.showExtras(d)
}

// conclude finishes a request that may count: it counts the request, or nothing, or its denial.
func (e *evaluation) conclude(r *Request, d *Decision) *Error {
	switch {
	case e.room.brimful() && e.growth(r, d) != nil:
		return e.full()
	case d.Allowed && r.Op == Reserve:
		return e.reserve(r, d)
	case d.Allowed: //mutant:denial-counts
		e.count(d)
	default:
		e.deny(r, r.Op, d)
	}
	return nil
}

// How a request is decided and counted, for the author of a new operation:
//
//	d := e.newDecision()
//	err := e.decideEntries(r, Check, &d) // asks every limit; e.charges has each entry's counter, limits and policy
//	e.deny(r, Check, &d)                 // denied: the statuses show the current state, the waits are exact
//	err = e.charges.roomForHolds()       // allowed: before holds are put into the counters
//	e.count(&d)                          // the keys get the new states; d.Index is set
//	e.putHolds(r, &d, hold{...})         // a hold of each entry's cost in its counter
//	e.showExtras(&d)                     // at the end: Held, LockoutLevel, BlockedUntil and Blocked
//
// How a counter is changed in other ways: decideEntries with Get, or with another op that decides nothing, puts it into
// e.charges, with expired holds already ended. Then call c.endHold or the like, then e.touch(c), so that it is written,
// then e.statuses(&d), which makes d.Limits show the current state, as Get does. Entries with Limits != nil are inline.
// A Settle that is inline, or names a policy or tier that no longer exists, uses the limits in the counter's record.

// decideEntries asks every limit of every entry and keeps the states that op would lead to. It counts nothing yet: d
// becomes the answer.
func (e *evaluation) decideEntries(r *Request, op Op, d *Decision) *Error {
	e.next, e.charges, e.blocked, e.extras = e.next[:0], e.charges[:0], false, false
	for i := range r.Entries {
		if err := e.decideEntry(r, i, op, d); err != nil {
			return err
		}
	}
	if e.blocked {
		d.Allowed = false
	}
	d.ShadowDenied = d.ShadowDenied && d.Allowed
	return nil
}

func (e *evaluation) decideEntry(r *Request, i int, op Op, d *Decision) *Error {
	entry := &r.Entries[i]
	ch, err := e.charge(r, i, op)
	if err != nil {
		return err
	}
	c := ch.counter

	cost := entry.Cost
	if ch.looks = cost == 0 && (op == Check || op == Peek); ch.looks {
		//mutant:look-takes
		op, cost = Peek, 1 // is there room for anything?
	}
	for j := range e.charges {
		if e.charges[j].counter.key == c.key {
			return Invalidf(fmt.Sprintf("entries[%d]", i),
				"repeats the policy and key of an earlier entry; add the costs up")
		}
	}
	if c.unseen() && op.charges() && !r.returnsLease() { //mutant:return-needs-room
		if e.room.full() {
			return e.full()
		}
		if err := e.capped(r, i, ch.policy); err != nil {
			return err
		}
	}
	ch.first = len(d.Limits)
	e.charges = append(e.charges, ch)
	if d.Limits == nil {
		d.Limits = e.slabs.statuses.take(len(ch.limits) * (len(r.Entries) - i))[:0]
	}
	if c.extras != nil {
		e.extras = true
		e.meetBlock(op, &ch, d)
	}
	if op == Partial {
		if cost = ch.room(cost, ch.denies, e.at.Now); cost == 0 {
			op, cost = Peek, 1 // find the limits without room, and until when
		}
	}
	e.charges[len(e.charges)-1].units = cost //mutant:asked-billed-not-granted
	for j := range ch.limits {
		e.decideLimit(op, &ch, j, entry, cost, d)
	}
	return nil
}

// decideLimit asks the j-th limit of a charge. It appends the state that op leads to to e.next, and the status to
// d.Limits: both at the index ch.first + j.
func (e *evaluation) decideLimit(op Op, ch *charge, j int, entry *Entry, cost uint64, d *Decision) {
	l := &ch.limits[j]
	s := ch.counter.at(j, l, e.at.Now)
	status := LimitStatus{Policy: entry.Policy, Limit: l.Name, Key: entry.Key, Quota: l.Quota,
		Unlimited: l.Unlimited || l.Algorithm == limit.Unlimited, Shadow: l.Shadow || ch.policy.Shadow}
	if status.Unlimited {
		status.Quota = 0
	}
	status.Soft = l.OnExceeded == policy.ExceededChallenge
	status.Uncounted = ch.looks || l.Algorithm == limit.Concurrency && (op == Check || op == Count || op == Partial)
	if op == Check && !l.Unlimited && l.Algorithm != limit.Concurrency && ch.counter.extras.leased() == 0 {
		// A shortcut for the most frequent case of ask: passing a State and a Verdict on costs a twentieth of a
		// decision.
		s, status.Verdict = limit.Take(l.Limit, s, cost, e.at.Now)
	} else {
		before := s
		s, status.Verdict = ch.ask(op, j, s, cost, e.at.Now)
		if op.exceeds(l) && !status.Uncounted {
			_, was := ch.ask(Get, j, before, 0, e.at.Now)
			status.Uncounted = status.Used != was.Used+cost
		}
	}
	if op == Partial {
		status.Granted = cost
	}
	e.next = append(e.next, s)
	d.Limits = append(d.Limits, status)
	if status.Allowed || !op.decides() {
		return
	}
	if status.Shadow {
		d.ShadowDenied = true
		return
	}
	d.Allowed = false
	d.RetryAfter = limit.Longer(d.RetryAfter, status.RetryAfter)
}

// count applies the states that the request leads to.
func (e *evaluation) count(d *Decision) {
	e.number(d)
	for i := range e.charges {
		ch := &e.charges[i]
		if ch.looks { //mutant:look-leaves-a-record
			continue
		}
		for j := range ch.limits {
			ch.setCounted(j, e.next[ch.first+j], e.at.Now)
		}
		ch.counter.bill(ch.policy.Meter, ch.units, e.at.Now) //mutant:admitted-not-billed
		e.touch(ch.counter)
	}
}

// statuses makes the statuses show the current limits, as Get does.
func (e *evaluation) statuses(d *Decision) {
	for i := range e.charges {
		ch := &e.charges[i]
		e.extras = e.extras || ch.counter.extras != nil
		for j := range ch.limits {
			s := ch.counter.at(j, &ch.limits[j], e.at.Now)
			_, d.Limits[ch.first+j].Verdict = ch.ask(Get, j, s, 0, e.at.Now)
		}
	}
	e.showExtras(d)
}
