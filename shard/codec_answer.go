package shard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
)

// answerFormat is the first byte of an idempotency record.
const answerFormat = 1

// The bits of an answer's flags.
const (
	answerShadowDenied = 1 << iota
	answerDenied       // and counted: the wait follows
	answerHeld         // the expiry of the hold follows
	answerTallied      // the tally follows
	answerCorrected    // the bill follows
	answerParents      // the policies and keys of parents follow
	answerFlags        = answerShadowDenied | answerDenied | answerHeld | answerTallied | answerCorrected | answerParents
)

// The bits of a status's flags.
const (
	flagUnlimited = 1 << iota
	flagShadow
	flagAllowed
	flagBlocked
	flagMore // held, granted, lockout level and end of the block follow
	flagUncounted
	flagByHand
	flagSoft
)

// encodeAnswer writes the record of an id: format, fingerprint, then the decision. The policy and key of a status are
// those of the request, which every request with this id contains; only the number of the entry is written. The parents of a
// policy may be others by then, so they are named.
func encodeAnswer(r *Request, d *Decision) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{answerFormat}, fingerprint(r))
	b = binary.AppendVarint(b, int64(d.DecidedAt))
	b = binary.AppendUvarint(b, d.Position.Epoch)
	b = binary.AppendUvarint(b, d.Position.Seq)
	b = binary.AppendUvarint(b, uint64(d.Index))
	b = append(b, bit(d.ShadowDenied)*answerShadowDenied|bit(!d.Allowed)*answerDenied|bit(d.HoldExpires != 0)*answerHeld|
		bit(d.Tallied != nil)*answerTallied|bit(r.Op == CorrectUsage)*answerCorrected|bit(r.Own != 0)*answerParents)

	if !d.Allowed {
		b = binary.AppendVarint(b, int64(d.RetryAfter))
	}
	if d.HoldExpires != 0 {
		b = binary.AppendVarint(b, int64(d.HoldExpires))
	}
	if d.Tallied != nil {
		b = d.Tallied.append(b, &Tallied{})
	}
	if r.Op == CorrectUsage {
		b = appendString(b, string(d.Document().Body))
	}
	if r.Own != 0 {
		b = binary.AppendUvarint(b, uint64(len(r.Entries)-r.Own))
		for i := range r.Entries[r.Own:] {
			b = appendString(appendString(b, r.Entries[r.Own+i].Policy), r.Entries[r.Own+i].Key)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(d.Limits)))
	entry := 0
	for i := range d.Limits {
		s := &d.Limits[i]
		for r.Entries[entry].Policy != s.Policy || r.Entries[entry].Key != s.Key {
			entry++
		}
		b = appendStatus(b, entry, s)
	}
	return b
}

// hasMore reports whether the status has fields that only keys with holds, grants or a ladder have.
func (s *LimitStatus) hasMore() bool {
	return s.Held != 0 || s.Granted != 0 || s.LockoutLevel != 0 || s.BlockedUntil != 0
}

func (s *LimitStatus) flags() byte {
	return bit(s.Unlimited)*flagUnlimited | bit(s.Shadow)*flagShadow | bit(s.Allowed)*flagAllowed |
		bit(s.Blocked)*flagBlocked | bit(s.hasMore())*flagMore | bit(s.Uncounted)*flagUncounted | bit(s.ByHand)*flagByHand |
		bit(s.Soft)*flagSoft
}

func appendStatus(b []byte, entry int, s *LimitStatus) []byte {
	b = binary.AppendUvarint(b, uint64(entry))
	b = appendString(b, s.Limit)
	b = append(b, s.flags())
	b = binary.AppendUvarint(b, s.Quota)
	b = binary.AppendUvarint(b, s.Used)
	b = binary.AppendUvarint(b, s.Remaining)
	b = binary.AppendVarint(b, int64(s.WindowStart))
	b = binary.AppendVarint(b, int64(s.ResetAt))
	b = binary.AppendVarint(b, int64(s.RetryAfter))
	if !s.hasMore() {
		return b
	}
	b = binary.AppendUvarint(b, s.Held)
	b = binary.AppendUvarint(b, s.Granted)
	b = binary.AppendUvarint(b, uint64(s.LockoutLevel))
	return binary.AppendVarint(b, int64(s.BlockedUntil))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeAnswer reads the record of an id for a request with that id. sameRequest is false if the id was used for another
// request; then there is no decision.
func decodeAnswer(shard ID, value []byte, r *Request) (d Decision, sameRequest bool, err error) {
	in := reader{rest: value}
	if in.byte() != answerFormat {
		return Decision{}, false, errors.New("shard: idempotency record of an unknown format")
	}
	if !r.isOf(in.fixed64()) {
		return Decision{}, false, nil
	}
	d = Decision{Replayed: true, DecidedAt: limit.Time(in.varint()),
		Position: Position{Shard: shard, Epoch: in.uvarint(), Seq: in.uvarint()}, Index: in.uint32()}
	flags := in.bits(answerFlags)
	d.ShadowDenied, d.Allowed = flags&answerShadowDenied != 0, flags&answerDenied == 0
	if !d.Allowed {
		d.RetryAfter = limit.Span(in.varint())
	}
	if flags&answerHeld != 0 {
		d.HoldExpires = limit.Time(in.varint()) //mutant:replay-lacks-hold-expiry
	}
	if flags&answerTallied != 0 {
		d.Tallied = new(in.tallied(&Tallied{}))
	}
	if flags&answerCorrected != 0 {
		d.System = &SystemAnswer{Document: Document{Version: 1, Body: []byte(in.string())}}
	}
	if flags&answerParents != 0 {
		then := Request{Entries: slices.Clip(r.own())}
		for range in.count() {
			then.Entries = append(then.Entries, Entry{Policy: in.string(), Key: in.string()})
		}
		r = &then
	}
	for range in.uvarint() {
		s, ok := in.status(r)
		if !ok {
			return Decision{}, false, errMalformedAnswer
		}
		d.Limits = append(d.Limits, s)
	}
	if in.failed || len(in.rest) != 0 {
		return Decision{}, false, errMalformedAnswer
	}
	return d, true, nil
}

var errMalformedAnswer = errors.New("shard: idempotency record is malformed")

func (r *reader) status(q *Request) (s LimitStatus, ok bool) {
	entry := r.uvarint()
	if entry >= uint64(len(q.Entries)) {
		return s, false
	}
	s.Policy, s.Key = q.Entries[entry].Policy, q.Entries[entry].Key
	r.readStatus(&s)
	return s, !r.failed
}

// readStatus reads the fields that follow the entry's number.
func (r *reader) readStatus(s *LimitStatus) {
	s.Limit = r.string()
	flags := r.byte()
	s.Unlimited, s.Shadow, s.Allowed = flags&flagUnlimited != 0, flags&flagShadow != 0, flags&flagAllowed != 0
	s.Quota, s.Used, s.Remaining = r.uvarint(), r.uvarint(), r.uvarint()
	s.WindowStart, s.ResetAt, s.RetryAfter = limit.Time(r.varint()), limit.Time(r.varint()), limit.Span(r.varint())
	s.Blocked, s.Uncounted, s.ByHand = flags&flagBlocked != 0, flags&flagUncounted != 0, flags&flagByHand != 0
	s.Soft = flags&flagSoft != 0
	if flags&flagMore != 0 {
		s.Held, s.Granted, s.LockoutLevel, s.BlockedUntil = r.uvarint(), r.uvarint(), r.uint32(), limit.Time(r.varint())
	}
}

// timeOfUUIDv7 returns the time in an id, if the id is a UUID of version 7 (RFC 9562, section 5.7: the first 48 bits are
// milliseconds since the Unix epoch).
func timeOfUUIDv7(id string) (limit.Time, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || id[14] != '7' {
		return 0, false
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || raw[8]>>6 != 2 {
		return 0, false
	}
	return limit.Time(binary.BigEndian.Uint64(raw)>>16) * 1000, true
}
