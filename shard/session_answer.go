package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// The answer to a check, or to a change by hand, cannot be derived from the later state, so the session remembers it until
// the request is finished: a copy gets the first answer again, with its place. The same holds for a counted denial of any
// operation. The answers are in the session's own record, which is written anyway. The answers of one batch are stored
// together, each as a difference from the one before: a check of a busy key takes about three bytes, one of another key
// about ten.

const (
	// sessionAnswers bounds the newest answers that a session remembers, in bytes: those of thousands of checks. One batch
	// has at most half of them, so that those of the newest batch are always there. A copy of an older request learns that
	// it was counted, with the current limits.
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
	number uint64          // of the newest
	index  uint32          // of the newest
	shape  int             // of the newest
	wait   limit.Span      // of the newest denial
	shapes [][]LimitStatus // the newest answer of each shape; a shape is what the answers under one policy have in common
	few    [2][]LimitStatus
	room   [128]byte
}

// The bits of an answer's head.
const (
	answeredNext   = 1 << iota // number and index are the successors
	answeredAlike              // the shape is that of the previous answer
	answeredShadow             // ShadowDenied
	answeredDenied             // and counted: the difference of its wait to the previous denial's follows
)

// The bits of a status's head: the differences to the previous one of the same shape, besides Used.
const (
	verdictSum = 1 << iota // Used + Remaining
	verdictStart
	verdictReset
	verdictWait
)

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
		b := binary.AppendUvarint(u.room[:0], d.Position.Epoch)
		b = binary.AppendUvarint(b, d.Position.Seq)
		u.bytes, u.shapes = binary.AppendUvarint(b, uint64(d.DecidedAt)), u.few[:0]
	}
	if cap(u.bytes)-len(u.bytes) < 24 {
		u.bytes = slices.Grow(u.bytes, max(1024-len(u.room), 3*len(u.bytes))) // in few steps: a batch may have thousands
	}
	shape := u.shapeOf(d.Limits)
	next := number == u.number+1 && d.Index == u.index+1
	alike := shape == u.shape && shape < len(u.shapes)
	b := append(u.bytes, bit(next)*answeredNext|bit(alike)*answeredAlike|bit(d.ShadowDenied)*answeredShadow|
		bit(!d.Allowed)*answeredDenied)
	if !next {
		b = binary.AppendVarint(b, int64(number-u.number))
		b = binary.AppendVarint(b, int64(d.Index)-int64(u.index))
	}
	if !d.Allowed {
		b, u.wait = binary.AppendVarint(b, int64(d.RetryAfter-u.wait)), d.RetryAfter
	}
	if !alike {
		b = binary.AppendUvarint(b, uint64(shape))
	}
	if shape == len(u.shapes) {
		b = appendShape(b, d.Limits)
		u.shapes = append(u.shapes, nil)
	}
	for i, before := 0, u.shapes[shape]; i < len(d.Limits); i++ {
		last := &limit.Verdict{}
		if before != nil {
			last = &before[i].Verdict
		}
		b = appendVerdict(b, &d.Limits[i].Verdict, last)
	}
	u.bytes, u.shapes[shape] = b, d.Limits
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
		x, y := &a[i], &b[i]
		if x.Limit != y.Limit || x.Quota != y.Quota || x.flags() != y.flags() || i > 0 && beginsEntry(a, i) != beginsEntry(b, i) ||
			x.Held != y.Held || x.Granted != y.Granted || x.LockoutLevel != y.LockoutLevel || x.BlockedUntil != y.BlockedUntil {
			return false
		}
	}
	return true
}

// appendShape writes the common part of the answers of one shape: statuses in the format of records, without their verdicts.
func appendShape(b []byte, statuses []LimitStatus) []byte {
	b = binary.AppendUvarint(b, uint64(len(statuses)))
	entry := -1
	for i := range statuses {
		entry += int(bit(beginsEntry(statuses, i)))
		one := statuses[i]
		one.Verdict = limit.Verdict{Allowed: one.Allowed}
		b = appendStatus(b, entry, &one)
	}
	return b
}

func appendVerdict(b []byte, v, last *limit.Verdict) []byte {
	sum := v.Used + v.Remaining - last.Used - last.Remaining
	b = append(b, bit(sum != 0)*verdictSum|bit(v.WindowStart != last.WindowStart)*verdictStart|
		bit(v.ResetAt != last.ResetAt)*verdictReset|bit(v.RetryAfter != last.RetryAfter)*verdictWait)
	b = binary.AppendVarint(b, int64(v.Used-last.Used))
	if sum != 0 {
		b = binary.AppendVarint(b, int64(sum))
	}
	if v.WindowStart != last.WindowStart {
		b = binary.AppendVarint(b, int64(v.WindowStart-last.WindowStart))
	}
	if v.ResetAt != last.ResetAt {
		b = binary.AppendVarint(b, int64(v.ResetAt-last.ResetAt))
	}
	if v.RetryAfter != last.RetryAfter {
		b = binary.AppendVarint(b, int64(v.RetryAfter-last.RetryAfter))
	}
	return b
}

// verdict reads a verdict as a difference to the previous one of its shape, which v contains. Allowed is part of the shape.
func (r *reader) verdict(v *limit.Verdict) {
	flags := r.byte()
	r.failed = r.failed || flags > verdictSum|verdictStart|verdictReset|verdictWait
	sum := v.Used + v.Remaining
	v.Used += uint64(r.varint())
	if flags&verdictSum != 0 {
		sum += uint64(r.varint())
	}
	v.Remaining = sum - v.Used
	if flags&verdictStart != 0 {
		v.WindowStart += limit.Time(r.varint())
	}
	if flags&verdictReset != 0 {
		v.ResetAt += limit.Time(r.varint())
	}
	if flags&verdictWait != 0 {
		v.RetryAfter += limit.Span(r.varint())
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

// appendAnswers writes the answers of each batch: their highest number, their length in bytes, and the bytes.
func (s *session) appendAnswers(b []byte) []byte {
	count := len(s.answered) + int(bit(s.fresh.last > s.acked))
	b = binary.AppendUvarint(b, uint64(count))
	for i := range s.answered {
		b = s.answered[i].append(b, s.acked)
	}
	if s.fresh.last > s.acked {
		b = s.fresh.append(b, s.acked)
	}
	return b
}

func (a *answers) append(b []byte, acked uint64) []byte {
	b = binary.AppendUvarint(b, a.last-acked)
	b = binary.AppendUvarint(b, uint64(len(a.bytes)))
	return append(b, a.bytes...)
}

// answers reads the answers of each batch. They share the record's memory.
func (r *reader) answers(s *session) {
	count := r.count()
	s.answered = s.few[:0]
	for range count {
		above := r.uvarint()
		bytes := r.bytes(r.uvarint())
		if r.failed = r.failed || above == 0 || above > sessionWindow || len(bytes) == 0; r.failed {
			return
		}
		s.answered = append(s.answered, answers{s.acked + above, bytes})
	}
}

// answerTo returns the answer to the request of that number, if the session remembers it.
func (s *session) answerTo(number uint64, shard ID, r *Request) (d Decision, found bool) {
	for i := range s.answered {
		if d, found = s.answered[i].find(number, shard, r); found {
			return d, true
		}
	}
	return s.fresh.find(number, shard, r)
}

// find reads the answers up to the one to a number, whose request came again as r.
func (a *answers) find(number uint64, shard ID, r *Request) (d Decision, found bool) {
	if number > a.last {
		return Decision{}, false
	}
	in := reader{rest: a.bytes}
	d = Decision{Replayed: true, Position: Position{Shard: shard, Epoch: in.uvarint(), Seq: in.uvarint()},
		DecidedAt: limit.Time(in.uvarint())}
	var at, shape uint64
	var wait limit.Span
	var shapes [][]shared
	for len(in.rest) > 0 && !in.failed {
		head := in.byte()
		if head&answeredNext != 0 {
			at, d.Index = at+1, d.Index+1
		} else {
			at, d.Index = at+uint64(in.varint()), d.Index+uint32(in.varint())
		}
		if head&answeredDenied != 0 {
			wait += limit.Span(in.varint())
		}
		if head&answeredAlike == 0 {
			shape = in.uvarint()
		}
		if shape == uint64(len(shapes)) {
			shapes = append(shapes, in.shape())
		}
		if in.failed || shape >= uint64(len(shapes)) {
			break
		}
		for i := range shapes[shape] {
			in.verdict(&shapes[shape][i].Verdict)
		}
		if at == number && !in.failed {
			d.ShadowDenied, d.Allowed = head&answeredShadow != 0, head&answeredDenied == 0
			if !d.Allowed {
				d.RetryAfter = wait
			}
			return d, nameStatuses(&d, shapes[shape], r)
		}
	}
	return Decision{}, false
}

// shared is one status of a shape, with the index of its entry.
type shared struct {
	entry uint64
	LimitStatus
}

// shape reads the common part of the answers of one shape.
func (r *reader) shape() (statuses []shared) {
	for range r.count() {
		s := shared{entry: r.uvarint()}
		r.readStatus(&s.LimitStatus)
		if r.failed {
			return nil
		}
		statuses = append(statuses, s)
	}
	return statuses
}

// nameStatuses gives an answer its statuses, with the names in the request. It returns false if the request has too few entries.
func nameStatuses(d *Decision, statuses []shared, r *Request) bool {
	for _, s := range statuses {
		if s.entry >= uint64(len(r.Entries)) {
			return false
		}
		s.Policy, s.Key = r.Entries[s.entry].Policy, r.Entries[s.entry].Key
		d.Limits = append(d.Limits, s.LimitStatus)
	}
	return true
}
