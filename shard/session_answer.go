package shard

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

// The answer to a check, or to a change by hand, cannot be derived from the later state, so the session remembers it
// until the request is finished: a copy gets the first answer again, with its place. The same applies to a counted
// denial of any operation. The answers are in the session's own record, which is written anyway. The answers of one
// batch are stored together, each as a difference from the one before: a check of a busy key takes about three bytes,
// one of another key about ten.

const (
	// sessionAnswers bounds the newest answers that a session remembers, in bytes: those of thousands of checks. One
	// batch has at most half of them, so that those of the newest batch are always there. A copy of an older request
	// learns that it was counted, with the current limits.
	sessionAnswers = 32 << 10
	// shapesSought is how many shapes are compared with an answer before it gets a new one.
	shapesSought = 8
)

// answers are the answers of one batch to a session.
type answers struct {
	last  uint64 // the highest of their request numbers
	bytes []byte
}

// answersUnderWay are the answers of the batch in evaluation.
type answersUnderWay struct {
	answers
	number uint64     // of the newest
	index  uint32     // of the newest
	shape  int        // of the newest
	wait   limit.Span // of the newest denial
	// shapes has the newest answer of each shape; a shape is the common part of the answers under one policy.
	shapes [][]LimitStatus
	few    [2][]LimitStatus // initial memory for shapes
	room   [128]byte        // and for bytes
}

// remembers reports whether a session keeps the answer for copies of the request. The answer to a request with an id is
// kept under the id, and some answers have records of their own.
func (r *Request) remembers(d *Decision) bool {
	return r.ID == "" && (!r.Op.answersOnce() || !d.Allowed) && d.Index != 0 && d.System == nil
}

// answer remembers the answer to a request. The statuses must not change until the batch is encoded.
func (s *session) answer(number uint64, r *Request, d *Decision) {
	u := &s.fresh
	if len(u.bytes) >= sessionAnswers/2 || !eachEntryShows(r, d.Limits) {
		return
	}
	if u.bytes == nil {
		u.bytes = appendNumbers(u.room[:0], d.Position.Epoch, d.Position.Seq, uint64(d.DecidedAt))
		u.shapes = u.few[:0]
	}
	if cap(u.bytes)-len(u.bytes) < 24 {
		// in few steps: a batch may have thousands
		u.bytes = slices.Grow(u.bytes, max(1024-len(u.room), 3*len(u.bytes)))
	}
	shape := u.shapeOf(d.Limits)
	next := number == u.number+1 && d.Index == u.index+1
	alike := shape == u.shape && shape < len(u.shapes)
	denied := !d.Allowed // and counted
	c := MessageWriter(u.bytes)
	c.Flags(&next, &alike, &d.ShadowDenied, &denied)
	if !next {
		codec.Int(&c.Codec, new(int64(number-u.number)))
		codec.Int(&c.Codec, new(int64(d.Index)-int64(u.index)))
	}
	if denied {
		codec.Int(&c.Codec, new(d.RetryAfter-u.wait))
		u.wait = d.RetryAfter
	}
	if !alike {
		codec.Uint(&c.Codec, &shape, math.MaxInt)
	}
	if shape == len(u.shapes) {
		c.names = r.Entries
		c.shape(&d.Limits)
		u.shapes = append(u.shapes, nil)
	}
	for i, before := 0, u.shapes[shape]; i < len(d.Limits); i++ {
		last := &limit.Verdict{}
		if before != nil {
			last = &before[i].Verdict
		}
		c.step(&d.Limits[i].Verdict, last)
	}
	u.bytes, u.shapes[shape] = c.Written(), d.Limits
	u.number, u.index, u.shape, u.last = number, d.Index, shape, max(u.last, number)
}

// eachEntryShows reports whether every entry has a status, so that the names show where an entry ends.
func eachEntryShows(r *Request, statuses []LimitStatus) bool {
	if len(r.Entries) == 1 {
		return len(statuses) > 0
	}
	shown := 0
	for i := range statuses {
		shown += int(bit(beginsEntry(statuses, i)))
	}
	return shown == len(r.Entries)
}

func beginsEntry(statuses []LimitStatus, i int) bool {
	return i == 0 || statuses[i].Key != statuses[i-1].Key || statuses[i].Policy != statuses[i-1].Policy
}

// shapeOf returns the index of the shape of an answer, or the number of shapes if it is new.
func (u *answersUnderWay) shapeOf(statuses []LimitStatus) int {
	if u.shape < len(u.shapes) && sameShape(u.shapes[u.shape], statuses) {
		return u.shape
	}
	for i := len(u.shapes) - 1; i >= max(0, len(u.shapes)-shapesSought); i-- {
		if sameShape(u.shapes[i], statuses) {
			return i
		}
	}
	return len(u.shapes)
}

func sameShape(a, b []LimitStatus) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if i > 0 && beginsEntry(a, i) != beginsEntry(b, i) || a[i].shape() != b[i].shape() {
			return false
		}
	}
	return true
}

// shape is what a status has in common with those of other answers of its shape.
func (s LimitStatus) shape() LimitStatus {
	s.Policy, s.Key, s.Verdict = "", "", limit.Verdict{Allowed: s.Allowed}
	return s
}

// shape is the common part of the answers of one shape: their statuses without their verdicts.
func (c *MessageCodec) shape(statuses *[]LimitStatus) {
	n := c.CountTo(len(*statuses), c.Left()/leastStatus)
	if c.Reading() {
		*statuses = make([]LimitStatus, n)
	}
	var before LimitStatus
	for i := range *statuses {
		one := (*statuses)[i]
		one.Verdict = limit.Verdict{Allowed: one.Allowed}
		if c.status(&before, &one); c.Reading() {
			(*statuses)[i] = one
		}
		before = one
	}
}

// step is a verdict as its difference to the last one of its shape. Allowed is part of the shape.
func (c *MessageCodec) step(v, last *limit.Verdict) {
	used, sum := int64(v.Used-last.Used), int64(v.Used+v.Remaining-last.Used-last.Remaining)
	start, reset, wait := v.WindowStart-last.WindowStart, v.ResetAt-last.ResetAt, v.RetryAfter-last.RetryAfter
	hasSum, hasStart, hasReset, hasWait := sum != 0, start != 0, reset != 0, wait != 0
	c.Flags(&hasSum, &hasStart, &hasReset, &hasWait)
	codec.Int(&c.Codec, &used)
	if hasSum {
		codec.Int(&c.Codec, &sum)
	}
	if hasStart {
		codec.Int(&c.Codec, &start)
	}
	if hasReset {
		codec.Int(&c.Codec, &reset)
	}
	if hasWait {
		codec.Int(&c.Codec, &wait)
	}
	if c.Reading() {
		total := last.Used + last.Remaining + uint64(sum)
		v.Used = last.Used + uint64(used)
		v.Remaining, v.WindowStart, v.ResetAt, v.RetryAfter = total-v.Used, last.WindowStart+start, last.ResetAt+reset,
			last.RetryAfter+wait
	}
}

// dropAnswers drops the finished answers, and the oldest ones above the bound.
func (s *session) dropAnswers() {
	kept, bytes := s.answered[:0], len(s.fresh.bytes)
	for i := range s.answered {
		bytes += len(s.answered[i].bytes)
	}
	for _, a := range s.answered {
		if a.last > s.acked && bytes <= sessionAnswers {
			kept = append(kept, a)
			continue
		}
		bytes -= len(a.bytes)
	}
	s.answered = kept
}

func (s *session) answerBytes() int {
	n := len(s.fresh.bytes)
	for i := range s.answered {
		n += len(s.answered[i].bytes) + 8
	}
	return n
}

// codeAnswers is the answers of each batch. Those that are read share the record's memory.
func (s *session) codeAnswers(c *codec.Codec) {
	fresh := s.fresh.last > s.acked
	n := c.Count(len(s.answered) + int(bit(fresh)))
	if c.Reading() {
		s.answered = append(s.few[:0], make([]answers, n)...)
	}
	for i := range s.answered {
		s.answered[i].code(c, s.acked)
	}
	if fresh {
		s.fresh.code(c, s.acked)
	}
}

// code is the answers of a batch: their highest number, their length in bytes, and the bytes.
func (a *answers) code(c *codec.Codec, acked uint64) {
	above := a.last - acked
	codec.Uint(c, &above, sessionWindow)
	n := c.Count(len(a.bytes))
	if !c.Reading() {
		c.Array(a.bytes)
		return
	}
	*a = answers{acked + above, c.Rest()[:n:n]}
	if c.SkipTo(c.Left() - n); above == 0 || n == 0 {
		c.Fail()
	}
}

// answerTo returns the answer to the request with that number, if the session remembers it.
func (s *session) answerTo(number uint64, shard ID, r *Request) (d Decision, found bool) {
	for i := range s.answered {
		if d, found = s.answered[i].find(number, shard, r); found {
			return d, true
		}
	}
	return s.fresh.find(number, shard, r)
}

// find reads the answers up to the one to a number. r is a copy of its request.
func (a *answers) find(number uint64, shard ID, r *Request) (d Decision, found bool) {
	if number > a.last {
		return Decision{}, false
	}
	c := MessageReader(string(a.bytes))
	c.names = r.Entries
	d = Decision{Replayed: true, Position: Position{Shard: shard}}
	c.Uint64(&d.Position.Epoch, &d.Position.Seq)
	codec.Uint(&c.Codec, &d.DecidedAt, math.MaxUint64)
	var at uint64
	var shape int
	var wait limit.Span
	var shapes [][]LimitStatus
	var alien []bool // shapes of requests with other entries
	for c.Left() > 0 {
		var next, alike, denied bool
		c.Flags(&next, &alike, &d.ShadowDenied, &denied)
		step, index, more := int64(1), int64(1), limit.Span(0)
		if !next {
			codec.Int(&c.Codec, &step)
			codec.Int(&c.Codec, &index)
		}
		at, d.Index = at+uint64(step), d.Index+uint32(index)
		if denied {
			codec.Int(&c.Codec, &more)
		}
		wait += more
		if !alike {
			codec.Uint(&c.Codec, &shape, math.MaxInt32)
		}
		if shape == len(shapes) {
			c.alien = false
			shapes = append(shapes, nil)
			c.shape(&shapes[shape])
			alien = append(alien, c.alien)
		}
		if c.Failed() || shape >= len(shapes) {
			break
		}
		for i := range shapes[shape] {
			c.step(&shapes[shape][i].Verdict, &shapes[shape][i].Verdict)
		}
		if at == number && !c.Failed() {
			if d.Limits, d.Allowed = shapes[shape], !denied; denied {
				d.RetryAfter = wait
			}
			return d, !alien[shape]
		}
	}
	return Decision{}, false
}
