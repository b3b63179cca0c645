package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// openSession begins a session. It is not refused when the shard is full: without one, requests on the keys that are
// there could not be sent again, and there are as many sessions as entry nodes, or a few more.
func (e *evaluation) openSession(r *Request) Result {
	if err := withoutKeys(r); err != nil {
		return Result{Err: err}
	}
	e.opened++
	s := &session{name: Session{Epoch: e.at.Epoch, Seq: e.at.Seq, Index: e.opened}, dirty: true}
	e.meet(s)
	e.weigh(s)
	d := e.newDecision()
	d.Told = &Told{Session: s.name}
	return Result{Decision: d}
}

// decideInSession decides a request that changes something, unless a copy of it was decided before, or must not be.
//
// Whatever says that it was definitely not applied is true of this copy. When the request says Retry it is true of all
// copies, those under way too, with two exceptions: SessionGone, as what a session has counted is forgotten with it; and
// TooLate to a number that its node called finished, to which nobody listens any more.
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
	s.ack(r.Acked)
	e.decideOnce(s, r, answer)
	e.weigh(s)
}

func (e *evaluation) decideOnce(s *session, r *Request, answer *Result) {
	switch {
	case r.Number <= s.acked || s.closed.has(r.Number):
		answer.Err = errFinished
		return
	case s.counted.has(r.Number):
		e.decidedBefore(s, r, answer)
		return
	case r.Number-s.acked > sessionWindow:
		answer.Err = tooFarAhead(r, s)
		return
	}
	e.decideInTime(r, answer)
	switch d := &answer.Decision; {
	case answer.Err == nil && (d.Allowed || d.Index != 0):
		s.add(&s.counted, r.Number)
		if r.Op == Tally {
			s.tell(r.Number, d.Tallied)
		}
		if d.Index != 0 && r.ID == "" && (!d.Allowed || r.Op.answersOnce()) {
			e.write(Put{Key: string(appendSessionAnswerKey(nil, r)),
				Record: Record{Value: encodeAnswer(r, d), ForgetAt: e.at.Now + limit.Time(sessionRetention)}})
		}
	case r.Retry:
		s.add(&s.closed, r.Number)
	}
}

var (
	errSessionGone = &Error{Code: SessionGone, Message: "the shard knows no such session any more; open another"}
	errFinished    = &Error{Code: TooLate, Message: "the request is finished: this is a copy that came late"}
)

// tooFarAhead refuses a number that the record has no place for. Another copy may come when it has: so a request of
// several copies is not told that it was not applied.
func tooFarAhead(r *Request, s *session) *Error {
	code := Overloaded
	if r.Retry {
		code = UnknownOutcome
	}
	return &Error{Code: code, RetryAfter: 50e3, Message: fmt.Sprintf(
		"request %d of a session of which %d are finished: at most %d may be under way", r.Number, s.acked, sessionWindow)}
}

// session returns the working copy of a session, decoded from the view when the batch first meets it; nil when the
// shard remembers none of that name.
func (e *evaluation) session(name Session) *session {
	if s, ok := e.sessions[name]; ok {
		return s
	}
	e.scratch = appendSessionKey(e.scratch[:0], name)
	record, found := e.view.Lookup(string(e.scratch))
	if !found || record.ForgetAt <= e.at.Now {
		return nil
	}
	s, err := decodeSession(name, record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	e.meet(s)
	return s
}

func (e *evaluation) meet(s *session) {
	if e.sessions == nil {
		e.sessions = make(map[Session]*session)
	}
	e.sessions[s.name] = s
	e.met = append(e.met, s)
}

// weigh counts the session's effect, if there is one, to those of the batch.
func (e *evaluation) weigh(s *session) {
	if s.changed() {
		size := s.size()
		e.bytes += size - s.bytes
		s.bytes = size
	}
}

func (s *session) add(to *numbers, n uint64) {
	to.add(n)
	s.dirty = true
}

// answersOnce reports whether the answer of an operation cannot be made again from what is there: which hold it was, or
// how much was granted. Such an answer is kept beside the session, as is a denial that was counted.
func (o Op) answersOnce() bool { return o == Reserve || o == Partial || o == Settle }

// decidedBefore answers a copy of a request that was counted: as its idempotency record says, or that of the session, if
// there is one; a tally as the session itself does. The parts of an operation on several shards have records of their own.
func (e *evaluation) decidedBefore(s *session, r *Request, answer *Result) {
	if r.Operation != nil {
		again := *r
		again.NotAfter = 0 // it was decided in time
		e.decideInTime(&again, answer)
		return
	}
	if r.ID != "" {
		e.scratch = appendAnswerKey(e.scratch[:0], r.Namespace, r.ID)
	} else {
		e.scratch = appendSessionAnswerKey(e.scratch[:0], r)
	}
	if record, found := e.lookup(string(e.scratch)); found {
		*answer = e.replay(record.Value, r)
		return
	}
	if r.Op == Tally {
		*answer = e.asTold(s, r.Number)
		return
	}
	answer.Decision = e.asCounted(r)
}

// asTold answers a tally's copy as the session remembers it.
func (e *evaluation) asTold(s *session, number uint64) Result {
	i := placeOfTold(s.tallies, number)
	if i == len(s.tallies) || s.tallies[i].number != number {
		return Result{Err: &Error{Code: UnknownOutcome, Message: "it was counted once, so long ago that what it came to is forgotten"}}
	}
	d := e.newDecision()
	d.Replayed, d.Tallied = true, new(s.tallies[i].tallied)
	return Result{Decision: d}
}

// asCounted says allowed, with the limits that were counted on as they are now. What can no longer be shown is left
// out, as when a policy was taken away: an error would say that nothing was counted.
func (e *evaluation) asCounted(r *Request) Decision {
	d := e.newDecision()
	d.Replayed = true
	if r.Op == Swap {
		d.Told = &Told{Document: Document{Version: r.Expect + 1}} // what the copy made, whatever others have made of it since
		return d
	}
	look := *r
	look.Op = Get
	if e.decideEntries(&look, Get, &d) != nil {
		d.Limits = nil
	} else if e.extras {
		e.showExtras(&d)
	}
	return d
}
