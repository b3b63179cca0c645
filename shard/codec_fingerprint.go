package shard

import "github.com/cespare/xxhash/v2"

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

// fingerprint distinguishes requests that use the same id, by what the client has sent: policies may have got or lost
// parents since, and a person may send the same request again from elsewhere. It is stored in records. So the message
// of these fields must not change: newer ones are appended, and only if they are set.
func fingerprint(r *Request) uint64 {
	sent := Request{Op: r.Op, Namespace: r.Namespace, Limit: r.Limit, Entries: r.own(), Hold: r.Hold,
		//mutant:correction-of-any-id
		Settlement: r.Settlement, Adjustment: r.Adjustment, Tally: r.Tally, System: r.System}
	if a := r.Adjustment; a != nil {
		sent.Adjustment = new(*a)
		sent.Adjustment.Actor = ""
	}
	c := MessageWriter(make([]byte, 0, 128))
	c.Request(&sent)
	return xxhash.Sum64(c.Written())
}
