package hop

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// answer holds results of one call: all of them, or as many as fit into a frame.
type answer struct {
	number  uint64 // of the call
	first   int    // index of the first result in the call
	count   int
	body    []byte         // the results, encoded
	results []shard.Result // decoded, at the dialer

	// The acceptor's fields, while the answer waits for a frame.
	refusal bool     // the call was never begun
	shard   shard.ID // the shard whose room in the window it holds
	held    int      // bytes held in the window; set in the last part of an answer only
}

// encodeAnswers encodes the results of a call, in as many parts as their size needs.
func encodeAnswers(number uint64, results []shard.Result) []answer {
	return appendAnswers(nil, number, results)
}

// appendAnswers is like encodeAnswers, but appends to parts.
func appendAnswers(parts []answer, number uint64, results []shard.Result) []answer {
	part := answer{number: number, body: make([]byte, 0, 128*min(len(results), 16))}
	for i := range results {
		before := len(part.body)
		part.body = appendSized(part.body, func(b []byte) []byte { return appendResult(b, &results[i]) })
		if len(part.body) > maxInFrame {
			one := part.body[before:]
			if len(one) > maxInFrame {
				one = appendSized(nil, func(b []byte) []byte { return appendResult(b, &tooLarge) })
			}
			part.body = part.body[:before]
			parts = append(parts, part)
			part = answer{number: number, first: i, body: append([]byte(nil), one...)}
		}
		part.count++
	}
	return append(parts, part)
}

var tooLarge = shard.Result{Err: &shard.Error{Code: shard.UnknownOutcome,
	Message: "the answer is too large to be forwarded; ask with fewer entries at once"}}

func appendAnswer(b []byte, a *answer) []byte {
	b = binary.AppendUvarint(b, a.number)
	b = binary.AppendUvarint(b, uint64(a.first))
	b = binary.AppendUvarint(b, uint64(a.count))
	return append(b, a.body...)
}

// decodeAnswers reads the records of a frame of answers. The results do not refer to the frame's bytes.
func decodeAnswers(records []byte) ([]answer, error) {
	var answers []answer
	for r := (frameReader{rest: string(records)}); len(r.rest) > 0; {
		a := answer{number: r.uvarint(), first: int(r.upTo(maxCallRequests))}
		a.count = r.countTo(maxCallRequests)
		a.results = make([]shard.Result, a.count)
		text := r.strings(a.count)
		var one frameReader
		for i := range a.results {
			one = frameReader{rest: text.string(), statuses: one.statuses, ahead: a.count - i}
			a.results[i] = one.result()
			r.failed = r.failed || one.failed || one.rest != ""
		}
		if r.failed {
			return nil, fmt.Errorf("%w: answer to call %d", errMalformedFrame, a.number)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// Bits of a result.
const (
	bitError byte = 1 << iota
	bitAllowed
	bitShadowDenied
	bitReplayed
	bitNamesSession
	bitHasDocument
	bitTellsMore
	bitsResult = 1<<iota - 1
)

// leastStatus is the minimum size of an encoded status in bytes.
const leastStatus = 8

// Bits of a status. Statuses come in the order of the entries, so policy and key are usually the same as in the previous
// one.
const (
	bitUnlimited byte = 1 << iota
	bitShadow
	bitAdmitted
	bitSameEntry
	bitHeld
	bitGranted
	bitLockout
	bitUncounted
	bitsStatus = 1<<iota - 1
)

// Bits of a status's block.
const (
	bitBlocked byte = 1 << iota
	bitByHand
	bitSoft
	bitsBlock = 1<<iota - 1
)

// Bits for the fields that few decisions have.
const (
	bitHoldExpires byte = 1 << iota
	bitAudit
	bitVerdict
	bitTallied
	bitAge
	bitForgot
	bitFired
	bitsSystem = 1<<iota - 1
)

func appendResult(b []byte, r *shard.Result) []byte {
	if e := r.Err; e != nil {
		b = append(b, bitError, byte(e.Code))
		b = appendText(appendText(b, e.Field), e.Message)
		return binary.AppendVarint(b, int64(e.RetryAfter))
	}
	return appendDecision(b, &r.Decision)
}

func appendDecision(b []byte, d *shard.Decision) []byte {
	session, document := d.Session(), d.Document()
	namesSession := session != (shard.Session{})
	hasDocument := document.Version != 0 || len(document.Body) > 0
	told := flag(d.HoldExpires != 0, bitHoldExpires) | flag(len(d.Audit()) > 0, bitAudit) |
		flag(d.Operation != nil, bitVerdict) | flag(d.Tallied != nil, bitTallied) | flag(d.Age != 0, bitAge) |
		flag(d.Forgot() != (shard.Forgot{}), bitForgot) | flag(len(d.Fired()) > 0, bitFired)
	b = append(b, flag(d.Allowed, bitAllowed)|flag(d.ShadowDenied, bitShadowDenied)|flag(d.Replayed, bitReplayed)|
		flag(namesSession, bitNamesSession)|flag(hasDocument, bitHasDocument)|flag(told != 0, bitTellsMore))
	b = binary.AppendVarint(b, int64(d.RetryAfter))
	b = binary.AppendVarint(b, int64(d.DecidedAt))
	b = appendPosition(b, d.Position)
	b = binary.AppendUvarint(b, uint64(d.Index))
	b = binary.AppendUvarint(b, uint64(len(d.Limits)))
	var before shard.LimitStatus
	for i := range d.Limits {
		b = appendStatus(b, &before, &d.Limits[i])
		before = d.Limits[i]
	}
	if namesSession {
		b = appendSession(b, session)
	}
	if hasDocument {
		b = binary.AppendUvarint(b, document.Version)
		b = append(binary.AppendUvarint(b, uint64(len(document.Body))), document.Body...)
	}
	if told != 0 {
		b = appendSystemAnswer(append(b, told), d, told)
	}
	return b
}

// appendSystemAnswer writes the fields that few decisions have.
func appendSystemAnswer(b []byte, d *shard.Decision, told byte) []byte {
	if told&bitHoldExpires != 0 {
		b = binary.AppendVarint(b, int64(d.HoldExpires))
	}
	if told&bitAudit != 0 {
		b = appendAudit(b, d.Audit())
	}
	if told&bitVerdict != 0 {
		b = appendVerdict(b, d.Operation)
	}
	if told&bitTallied != 0 {
		b = appendTallied(b, d.Tallied)
	}
	if told&bitAge != 0 {
		b = binary.AppendVarint(b, int64(d.Age))
	}
	if told&bitForgot != 0 {
		b = appendForgot(b, d.Forgot())
	}
	if told&bitFired != 0 {
		b = appendFired(b, d.Fired())
	}
	return b
}

func appendPosition(b []byte, p shard.Position) []byte {
	b = binary.AppendUvarint(b, uint64(p.Shard))
	b = binary.AppendUvarint(b, p.Epoch)
	return binary.AppendUvarint(b, p.Seq)
}

func appendStatus(b []byte, before, s *shard.LimitStatus) []byte {
	same := s.Policy == before.Policy && s.Key == before.Key
	lockout := s.LockoutLevel != 0 || s.BlockedUntil != 0 || s.Blocked || s.Soft //mutant:softness-lost-between-shards
	b = append(b, flag(s.Unlimited, bitUnlimited)|flag(s.Shadow, bitShadow)|flag(s.Allowed, bitAdmitted)|
		flag(same, bitSameEntry)|flag(s.Held != 0, bitHeld)|flag(s.Granted != 0, bitGranted)|flag(lockout, bitLockout)|
		flag(s.Uncounted, bitUncounted))
	if !same {
		b = appendText(appendText(b, s.Policy), s.Key)
	}
	b = appendText(b, s.Limit)
	b = binary.AppendUvarint(b, s.Quota)
	b = binary.AppendUvarint(b, s.Used)
	b = binary.AppendUvarint(b, s.Remaining)
	b = binary.AppendVarint(b, int64(s.WindowStart))
	b = binary.AppendVarint(b, int64(s.ResetAt))
	b = binary.AppendVarint(b, int64(s.RetryAfter))
	if s.Held != 0 {
		b = binary.AppendUvarint(b, s.Held)
	}
	if s.Granted != 0 {
		b = binary.AppendUvarint(b, s.Granted)
	}
	if lockout {
		b = binary.AppendUvarint(b, uint64(s.LockoutLevel))
		b = binary.AppendVarint(b, int64(s.BlockedUntil))
		b = append(b, flag(s.Blocked, bitBlocked)|flag(s.ByHand, bitByHand)|flag(s.Soft, bitSoft))
	}
	return b
}

func (r *frameReader) result() shard.Result {
	flags := r.flags(bitsResult)
	if flags == bitError {
		return shard.Result{Err: &shard.Error{Code: shard.Code(r.flags(math.MaxUint8)),
			Field: r.string(), Message: r.string(), RetryAfter: limit.Span(r.varint())}}
	}
	if flags&bitError != 0 { // an error carries no decision
		r.fail()
	}
	return shard.Result{Decision: r.decision(flags)}
}

// decision reads a decision after its flags.
func (r *frameReader) decision(flags byte) shard.Decision {
	d := shard.Decision{Allowed: flags&bitAllowed != 0, ShadowDenied: flags&bitShadowDenied != 0,
		Replayed: flags&bitReplayed != 0, RetryAfter: limit.Span(r.varint()), DecidedAt: limit.Time(r.varint())}
	d.Position = r.position()
	d.Index = uint32(r.upTo(math.MaxUint32))
	var before shard.LimitStatus
	if n := r.countTo(len(r.rest) / leastStatus); n > 0 {
		d.Limits, r.statuses = carve(r.statuses, n, r.ahead)
	}
	for i := range d.Limits {
		before = r.status(&before)
		d.Limits[i] = before
	}
	if flags&bitNamesSession != 0 {
		d.System = &shard.SystemAnswer{Session: r.session()}
	}
	if flags&bitHasDocument != 0 {
		systemAnswerOf(&d).Document = shard.Document{Version: r.uvarint(), Body: r.body()}
	}
	if flags&bitTellsMore != 0 {
		r.told(&d)
	}
	if t := d.System; t != nil && t.Session == (shard.Session{}) && t.Document.Version == 0 && t.Document.Body == nil &&
		t.Audit == nil && t.Forgot == (shard.Forgot{}) && t.Fired == nil {
		d.System = nil // as if the bits had not been there
	}
	return d
}

func (r *frameReader) told(d *shard.Decision) {
	told := r.flags(bitsSystem)
	if told&bitHoldExpires != 0 {
		d.HoldExpires = limit.Time(r.varint())
	}
	if told&bitAudit != 0 {
		systemAnswerOf(d).Audit = r.audit()
	}
	if told&bitVerdict != 0 && r.inLeg {
		r.fail()
	} else if told&bitVerdict != 0 {
		verdict := r.verdict()
		d.Operation = &verdict
	}
	if told&bitTallied != 0 {
		d.Tallied = r.tallied()
	}
	if told&bitAge != 0 {
		d.Age = limit.Span(r.varint())
	}
	if told&bitForgot != 0 {
		systemAnswerOf(d).Forgot = r.forgot()
	}
	if told&bitFired != 0 {
		systemAnswerOf(d).Fired = r.fired()
	}
}

// systemAnswerOf returns d.System, allocating it if needed.
func systemAnswerOf(d *shard.Decision) *shard.SystemAnswer {
	if d.System == nil {
		d.System = &shard.SystemAnswer{}
	}
	return d.System
}

func (r *frameReader) position() shard.Position {
	return shard.Position{Shard: shard.ID(r.upTo(math.MaxUint32)), Epoch: r.uvarint(), Seq: r.uvarint()}
}

func (r *frameReader) status(before *shard.LimitStatus) (s shard.LimitStatus) {
	flags := r.flags(bitsStatus)
	s.Unlimited, s.Shadow, s.Allowed = flags&bitUnlimited != 0, flags&bitShadow != 0, flags&bitAdmitted != 0
	if flags&bitSameEntry != 0 {
		s.Policy, s.Key = before.Policy, before.Key
	} else {
		s.Policy, s.Key = r.string(), r.string()
	}
	s.Limit = r.string()
	s.Quota, s.Used, s.Remaining = r.uvarint(), r.uvarint(), r.uvarint()
	s.WindowStart, s.ResetAt, s.RetryAfter = limit.Time(r.varint()), limit.Time(r.varint()), limit.Span(r.varint())
	if flags&bitHeld != 0 {
		s.Held = r.uvarint()
	}
	if flags&bitGranted != 0 {
		s.Granted = r.uvarint()
	}
	if flags&bitLockout != 0 {
		s.LockoutLevel, s.BlockedUntil = uint32(r.upTo(math.MaxUint32)), limit.Time(r.varint())
		block := r.flags(bitsBlock)
		s.Blocked, s.ByHand, s.Soft = block&bitBlocked != 0, block&bitByHand != 0, block&bitSoft != 0
	}
	s.Uncounted = flags&bitUncounted != 0
	return s
}
