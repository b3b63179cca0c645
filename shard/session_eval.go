package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// openSession opens a session, even on a full shard. Without one, requests on existing keys could not be retried, and
// there are only about as many sessions as entry nodes.
func (b *batch) openSession(r *Request) Result {
	if err := withoutKeys(r); err != nil {
		return Result{Err: err}
	}
	b.opened++
	s := &session{name: Session{Epoch: b.at.Epoch, Seq: b.at.Seq, Index: b.opened}, dirty: true}
	b.meet(s)
	b.weigh(s)
	return b.answerOf(SystemAnswer{Session: s.name})
}

// decideInSession decides a request that changes something, unless a copy of it has been decided, or must not be.
//
// An answer that the request was certainly not applied is true of this copy. If the request says Retry it is true of
// all copies, including those in transit, with two exceptions: SessionGone, since a session's counted numbers are
// forgotten with it; and TooLate for a number that its node has declared finished, since no caller waits for that
// answer.
func (e *evaluation) decideInSession(r *Request, answer *Result) {
	if r.Number == 0 || r.Acked >= r.Number {
		answer.Err = Invalidf("number", "is %d, with %d finished: it must be above", r.Number, r.Acked)
		return
	}
	s := e.session(r.Session)
	if s == nil {
		answer.Err = errSessionGone
		return
	}
	e.finished(s, r.Acked)
	sessionEvaluation{e, s, r}.decideOnce(answer) //mutant:time-asked-before-session
	e.weigh(s)
}

// sessionEvaluation evaluates a request of a session, which is counted once however often it is sent.
type sessionEvaluation struct {
	*evaluation
	s *session
	r *Request
}

func (e sessionEvaluation) decideOnce(answer *Result) {
	switch {
	//mutant:copy-runs-after-a-no //mutant:finished-copy-runs
	case e.r.Number <= e.s.acked || e.s.closed.has(e.r.Number):
		answer.Err = errFinished
		return
	case e.s.counted.has(e.r.Number): //mutant:reservation-copy-holds-again
		e.decidedBefore(answer)
		return
	case e.r.Number-e.s.acked > sessionWindow:
		answer.Err = tooFarAhead(e.r, e.s)
		return
	}
	e.decideInTime(e.r, answer)
	switch d := &answer.Decision; {
	case answer.Err == nil && (d.Allowed || d.Index != 0):
		e.s.add(&e.s.counted, e.r.Number) //mutant:session-remembers-no-count
		e.remember(d)
	case e.r.Retry:
		e.s.add(&e.s.closed, e.r.Number)
	}
}

// remember keeps the answer for copies of the request, in the session or beside it, until the request is finished.
func (e sessionEvaluation) remember(d *Decision) {
	if !d.Allowed { // an id may be forgotten before its copies are
		e.s.add(&e.s.denied, e.r.Number) //mutant:copy-of-a-denied-id-is-allowed
	}
	switch {
	case e.r.Op == Tally:
		e.s.tell(e.r.Number, d.Tallied)
	case e.r.remembers(d):
		e.s.answer(e.r.Number, e.r, d)
	//mutant:reservation-copy-lacks-its-hold
	case d.Index != 0 && e.r.ID == "" && e.r.Op.answersOnce() && !e.room.brimful():
		e.write(Put{Key: string(appendSessionAnswerKey(nil, e.r.Session, e.r.Number)),
			Record: Record{Value: encodeAnswer(e.r, d), ForgetAt: e.at.Now + limit.Time(sessionRetention)}})
		e.s.add(&e.s.kept, e.r.Number)
	}
}

// forgottenMost bounds the records that one request removes, at about 40 bytes each, so that an entry keeps its size.
const forgottenMost = 2048

// finished records that every number up to acked is finished, and removes the records beside the session that were kept
// to answer copies of those. If there are too many for one request, fewer numbers are treated as finished, which is
// harmless.
func (b *batch) finished(s *session, acked uint64) {
	if acked > s.acked && len(s.kept.bits) > 0 {
		forgotten := 0
		for n := range s.kept.through(acked) {
			if forgotten == forgottenMost {
				acked = n - 1
				break
			}
			b.scratch = appendSessionAnswerKey(b.scratch[:0], s.name, n)
			if _, found := b.lookup(string(b.scratch)); found {
				b.write(Put{Key: string(b.scratch)})
				s.dirty = true // so that the record never lists less than still exists
			}
			forgotten++
		}
	}
	s.ack(acked)
}

var (
	errSessionGone = &Error{Code: SessionGone, Message: "the shard no longer knows this session; open another"}
	errFinished    = &Error{Code: TooLate, Message: "the request is finished: this is a copy that came late"}
)

// tooFarAhead refuses a number beyond the session's window. Another copy may arrive when the window has moved, so a
// request with several copies is not answered as not applied.
func tooFarAhead(r *Request, s *session) *Error {
	code := Overloaded
	if r.Retry {
		code = UnknownOutcome
	}
	return &Error{Code: code, RetryAfter: 50e3, Message: fmt.Sprintf(
		"request %d of a session of which %d are finished: at most %d may be under way",
		r.Number, s.acked, sessionWindow)}
}

// session returns the working copy of a session, decoded from the view when the batch first meets it, or nil if the
// shard does not remember it.
func (b *batch) session(name Session) *session {
	if s, ok := b.sessions[name]; ok {
		return s
	}
	b.scratch = appendSessionKey(b.scratch[:0], name)
	record, found := b.view.Lookup(string(b.scratch))
	if !found || record.ForgetAt <= b.at.Now {
		return nil
	}
	s, err := decodeSession(name, record.Value)
	if err != nil {
		return nil // its node opens another: its counted numbers are unknown
	}
	b.meet(s)
	return s
}

func (b *batch) meet(s *session) {
	if b.sessions == nil {
		b.sessions = make(map[Session]*session)
	}
	b.sessions[s.name] = s
	b.met = append(b.met, s)
}

// weigh adds the session's effect, if there is one, to the size of the batch.
func (b *batch) weigh(s *session) {
	if s.changed() {
		size := s.size()
		b.bytes += size - s.bytes
		s.bytes = size
	}
}

func (s *session) add(to *numbers, n uint64) {
	to.add(n)
	s.dirty = true
}

// decidedBefore answers a copy of a counted request from its idempotency record or from its record beside the session,
// if there is one, and for a tally or a check from the session itself.
func (e sessionEvaluation) decidedBefore(answer *Result) {
	if e.r.ID != "" {
		e.scratch = appendAnswerKey(e.scratch[:0], e.r.Namespace, e.r.Slot(), e.r.ID)
	} else {
		e.scratch = appendSessionAnswerKey(e.scratch[:0], e.r.Session, e.r.Number)
	}
	if record, found := e.lookup(string(e.scratch)); found {
		*answer = e.replay(record.Value, e.r)
		if err := answer.Err; err != nil && err.Code == Unreadable {
			answer.Err = &Error{Code: UnknownOutcome, Message: "it was counted once: " + err.Message}
		} else if e.r.Operation != nil {
			answer.Decision.Operation = e.r.held()
		}
		return
	}
	if e.r.Operation != nil { // home has not all of its keys
		answer.Err = &Error{Code: UnknownOutcome, Message: "the hold was extended once; its answer is forgotten"}
		return
	}
	if e.r.ID != "" {
		at := e.r.Slot()
		answer.Err = e.slotElsewhere(at)                           //mutant:moved-answer-made-up
		if answer.Err != nil || e.decidedAcross(e.r, at, answer) { //mutant:ruling-answered-anew
			return
		}
	}
	if e.r.Op == Tally {
		*answer = e.replayedTally()
		return
	}
	if d, found := e.s.answerTo(e.r.Number, e.at.Shard, e.r); found {
		answer.Decision = d
		return
	}
	if e.s.denied.has(e.r.Number) {
		answer.Decision = e.asDenied()
		return
	}
	answer.Decision = e.asCounted()
}

// replayedTally answers a tally's copy from the session's memory.
func (e sessionEvaluation) replayedTally() Result {
	i := placeOfReplay(e.s.tallies, e.r.Number)
	if i == len(e.s.tallies) || e.s.tallies[i].number != e.r.Number {
		return Result{Err: errorf(UnknownOutcome, "",
			"it was counted once, so long ago that what it came to is forgotten")}
	}
	d := e.newDecision()
	d.Replayed, d.Tallied = true, new(e.s.tallies[i].tallied)
	return Result{Decision: d}
}

// asDenied is asCounted for a counted denial. If the request would be admitted by now, the wait is the shortest
// possible.
func (e sessionEvaluation) asDenied() Decision {
	d := e.newDecision()
	look := *e.r
	look.Op = Peek
	switch err := e.decideEntries(&look, Peek, &d); {
	case err != nil:
		d.Limits = nil
	case !d.Allowed:
		e.exactWaits(&look, Peek, &d)
	}
	if d.Limits != nil {
		e.showExtras(&d)
	}
	if d.Allowed || d.RetryAfter == 0 {
		d.RetryAfter = 1
	}
	d.Allowed, d.Replayed = false, true
	return d
}

// asCounted answers "allowed", with the current state of the counted limits, if the original answer is not remembered:
// there were too many others, or the shard was too full to keep it. A status that no longer exists is left out, for
// instance after the removal of a policy: an error would mean that nothing was counted.
func (e sessionEvaluation) asCounted() Decision {
	d := e.newDecision()
	d.Replayed = true
	if e.r.Op == Forget {
		// there may be: a Forget is repeated until it finds nothing
		d.System = &SystemAnswer{Forgot: Forgot{More: true}}
		return d
	}
	if e.r.Op == Swap {
		// The version that the swap made, even if it was replaced since.
		d.System = &SystemAnswer{Document: Document{Version: e.r.Expect + 1}}
		return d
	}
	look := *e.r
	look.Op = Get
	if e.decideEntries(&look, Get, &d) != nil {
		d.Limits = nil
		return d
	}
	e.showExtras(&d)
	if e.r.Op.Deed() != "" {
		e.charges.showLeases(&d) //mutant:copy-of-a-change-hides-leases
	}
	return d
}
