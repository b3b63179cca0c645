package shard

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// own returns the entries that the client has sent.
func (r *Request) own() []Entry {
	if r.Own == 0 {
		return r.Entries
	}
	return r.Entries[:min(r.Own, len(r.Entries))] //mutant:parents-are-of-the-request
}

// isOf reports whether the fingerprint in a record is the request's.
func (r *Request) isOf(print uint64) bool {
	if r.Operation != nil && r.Op != Settle {
		return print == r.Operation.Fingerprint
	}
	return print == fingerprint(r) //mutant:one-id-for-any-request
}

// fingerprint distinguishes requests that use the same id, by what the client has sent: policies may have got or lost parents
// since. It is stored in records, so the fingerprint of a request must not change: newer fields are appended, and only if they
// are set.
func fingerprint(r *Request) uint64 {
	entries := r.own()
	b := make([]byte, 0, 256)
	b = append(b, byte(r.Op))
	b = appendString(b, r.Namespace)
	b = appendString(b, r.Limit)
	inline := false
	for i := range entries {
		e := &entries[i]
		b = appendString(b, e.Policy)
		b = appendString(b, e.Key)
		b = appendString(b, e.Tier)
		b = binary.AppendUvarint(b, e.Cost)
		inline = inline || e.Limits != nil
	}
	if inline {
		for i := range entries {
			b = appendInline(b, entries[i].Limits)
		}
	}
	b = r.Hold.append(b)
	b = r.Settlement.append(b)
	b = r.Adjustment.append(b)
	b = r.Tally.append(b)
	if r.Op == CorrectUsage { //mutant:correction-of-any-id
		b = append(b, r.Body...)
	}
	return xxhash.Sum64(b)
}

// appendInline writes the inline limits of a request: their number + 1, and each limit. It writes 0 for nil.
func appendInline(b []byte, limits []policy.Limit) []byte {
	if limits == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(limits))+1)
	for i := range limits {
		b = appendString(b, limits[i].Name)
		b = append(b, bit(limits[i].Shadow))
		b = limit.AppendLimit(b, limits[i].Limit)
	}
	return b
}

func (h *HoldTerms) append(b []byte) []byte {
	if h == nil {
		return b
	}
	return append(binary.AppendVarint(b, int64(h.TTL)), byte(h.OnExpire))
}

func (s *Settlement) append(b []byte) []byte {
	if s == nil {
		return b
	}
	t := &s.Target
	b = append(b, bit(t.Hold), byte(s.Action), byte(s.Overage))
	b = binary.AppendUvarint(b, uint64(t.Position.Shard))
	b = appendPlace(b, t.Position.Epoch, t.Position.Seq, t.Index)
	b = binary.AppendVarint(b, int64(t.DecidedAt))
	b = appendString(b, t.Operation)
	b = binary.AppendUvarint(b, uint64(t.Home))
	b = binary.AppendVarint(b, int64(s.TTL))
	b = append(b, bit(s.Actual != nil))
	for _, units := range s.Actual {
		b = binary.AppendUvarint(b, units)
	}
	return b
}

func (t *TallyTerms) append(b []byte) []byte {
	if t == nil {
		return b
	}
	b = append(b, byte(t.Verb), byte(t.When), bit(t.KeepTTL)|bit(t.At)<<1)
	return binary.AppendVarint(binary.AppendVarint(b, t.Amount), int64(t.TTL))
}

// append leaves out the Actor: the same request may be sent again from elsewhere.
func (a *Adjustment) append(b []byte) []byte {
	if a == nil {
		return b
	}
	b = binary.AppendVarint(b, a.Amount)
	b = binary.AppendVarint(b, int64(a.Until))
	b = appendString(b, a.Note)
	if a.Override != nil {
		b = appendOverride(b, a.Override)
	}
	return b
}
