package shard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// answerFormat is the first byte of an idempotency record.
const answerFormat = 1

// fingerprint tells whether two requests under one id are the same request.
func fingerprint(r *Request) uint64 {
	b := make([]byte, 0, 256)
	b = append(b, byte(r.Op))
	b = appendString(b, r.Namespace)
	b = appendString(b, r.Limit)
	for i := range r.Entries {
		e := &r.Entries[i]
		b = appendString(b, e.Policy)
		b = appendString(b, e.Key)
		b = appendString(b, e.Tier)
		b = binary.AppendUvarint(b, e.Cost)
	}
	return xxhash.Sum64(b)
}

// The bits of a status's flags.
const (
	flagUnlimited = 1 << iota
	flagShadow
	flagAllowed
)

// encodeAnswer writes the record of an id: format, fingerprint, then what was decided. Policy and key of a status
// are those of the request, which the same id always brings along; only the entry's number is written.
func encodeAnswer(r *Request, d *Decision) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{answerFormat}, fingerprint(r))
	b = binary.AppendVarint(b, int64(d.DecidedAt))
	b = binary.AppendUvarint(b, d.Position.Epoch)
	b = binary.AppendUvarint(b, d.Position.Seq)
	b = binary.AppendUvarint(b, uint64(d.Index))
	b = append(b, bit(d.ShadowDenied))
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

func appendStatus(b []byte, entry int, s *LimitStatus) []byte {
	b = binary.AppendUvarint(b, uint64(entry))
	b = appendString(b, s.Limit)
	b = append(b, bit(s.Unlimited)*flagUnlimited|bit(s.Shadow)*flagShadow|bit(s.Allowed)*flagAllowed)
	b = binary.AppendUvarint(b, s.Quota)
	b = binary.AppendUvarint(b, s.Used)
	b = binary.AppendUvarint(b, s.Remaining)
	b = binary.AppendVarint(b, int64(s.WindowStart))
	b = binary.AppendVarint(b, int64(s.ResetAt))
	return binary.AppendVarint(b, int64(s.RetryAfter))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeAnswer reads the record of an id for a request that came with it. sameRequest is false when the id was used
// for another one: then there is no decision.
func decodeAnswer(shard ID, value []byte, r *Request) (d Decision, sameRequest bool, err error) {
	in := reader{rest: value}
	if format := in.byte(); format != answerFormat {
		return Decision{}, false, errors.New("shard: idempotency record of an unknown format")
	}
	if in.fixed64() != fingerprint(r) {
		return Decision{}, false, nil
	}
	d = Decision{Allowed: true, Replayed: true, DecidedAt: limit.Time(in.varint()),
		Position: Position{Shard: shard, Epoch: in.uvarint(), Seq: in.uvarint()}}
	d.Index, d.ShadowDenied = uint32(in.uvarint()), in.byte() != 0
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
	s.Policy, s.Key, s.Limit = q.Entries[entry].Policy, q.Entries[entry].Key, r.string()
	flags := r.byte()
	s.Unlimited, s.Shadow, s.Allowed = flags&flagUnlimited != 0, flags&flagShadow != 0, flags&flagAllowed != 0
	s.Quota, s.Used, s.Remaining = r.uvarint(), r.uvarint(), r.uvarint()
	s.WindowStart, s.ResetAt, s.RetryAfter = limit.Time(r.varint()), limit.Time(r.varint()), limit.Span(r.varint())
	return s, !r.failed
}

// timeOfUUIDv7 returns the time an id carries, if it is a UUID of version 7 (RFC 9562, section 5.7: 48 bits of
// milliseconds since the Unix epoch first).
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
