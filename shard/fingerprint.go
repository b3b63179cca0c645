package shard

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// fingerprint tells whether two requests under one id are the same request. Who asked and until when it may be decided
// does not belong to it. It stands in records: a request that earlier versions knew has the fingerprint that they gave it.
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
	return xxhash.Sum64(r.appendTerms(b))
}

// appendTerms writes what only some requests have, each behind a byte of its own; for all others nothing.
func (r *Request) appendTerms(b []byte) []byte {
	for i := range r.Entries {
		if r.Entries[i].Limits != nil {
			b = append(b, 'l')
			b = r.Entries[i].appendLimits(binary.AppendUvarint(b, uint64(i)))
		}
	}
	if h := r.Hold; h != nil {
		b = binary.AppendVarint(append(b, 'h'), int64(h.TTL))
		b = append(b, byte(h.OnExpire))
	}
	if s := r.Settlement; s != nil {
		b = s.append(append(b, 's'))
	}
	if a := r.Adjustment; a != nil {
		b = binary.AppendVarint(append(b, 'a'), a.Amount)
		b = binary.AppendVarint(b, int64(a.Until))
		b = append(appendString(b, a.Note), bit(a.Override != nil))
		if a.Override != nil {
			b = appendOverride(b, a.Override)
		}
	}
	return b
}

func (e *Entry) appendLimits(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.Limits)))
	for i := range e.Limits {
		l := &e.Limits[i]
		b = appendString(b, l.Name)
		b = append(b, bit(l.Shadow))
		if l.Algorithm != 0 { // else only its name is known, from an id
			b = limit.AppendLimit(b, l.Limit)
		}
	}
	return b
}

func (s *Settlement) append(b []byte) []byte {
	t := &s.Target
	b = append(b, bit(t.Hold))
	b = binary.AppendUvarint(b, uint64(t.Position.Shard))
	b = appendPlace(b, t.Position.Epoch, t.Position.Seq, t.Index)
	b = binary.AppendUvarint(b, uint64(t.Home))
	b = appendString(b, t.Operation)
	b = append(b, byte(s.Action), byte(s.Overage), bit(s.Actual != nil))
	for _, cost := range s.Actual {
		b = binary.AppendUvarint(b, cost)
	}
	return binary.AppendVarint(b, int64(s.TTL))
}
