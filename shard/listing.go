package shard

import (
	"bytes"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
	"github.com/stint-io/stint/shard/table"
)

// Listing selects keys of a shard.
type Listing struct {
	Namespace string
	Policy    string // "" for all, including inline limits
	Prefix    string // of the keys; "" for all
	Overrides bool   // only keys that have an override
	Leases    bool   // only keys that have an open lease
	From      uint64 // 0, or Listed.Next of the listing before
	Count     int    // number of keys; one more for each with the hash of another
	// Founded says which shard had a slot when it was founded. A replica that has no record of the slot may not have
	// heard yet that it moved. nil: this shard had all.
	Founded *slot.Map
}

// ListedKey is a key with a counter under a policy.
type ListedKey struct {
	Policy   string // "~" and the label for inline limits
	Key      string
	Override *policy.Override // nil if it has none
	Leases   []HeldLease      // that have not ended
}

// Listed is a part of the keys of a shard, in no order.
type Listed struct {
	Keys []ListedKey
	Next uint64 // 0 if there are no more
	// Slots are those of the keys that the replica would show now. nil: all. A caller that asks one shard after the
	// other has met every key if it has met every slot.
	Slots *slot.Set
}

// listRecords bounds a listing that finds little: reading so many takes about a millisecond, while nothing is
// installed.
const listRecords = 2000

// List reads keys of a replica, without a commit, so it may be behind. A key that exists from the first call to the
// last is in exactly one of the answers, regardless of changes meanwhile and of which replica answers, unless its slot
// moves.
func (s *State) List(q Listing) (l Listed) {
	seen, last, shown := 0, q.From, showing(s, s.slotted)
	l.Slots = slotsServed(s, s.slotted, &Stamp{Position: Position{Shard: s.id}, Slots: q.Founded})
	for key, r := range s.table.Scan(q.From) {
		place := table.Place(keyLayout{}, key)
		if place != last && (seen >= listRecords || len(l.Keys) >= q.Count) {
			l.Next = place
			return l
		}
		seen, last = seen+1, place
		if one, ok := s.listed(&q, key, r); ok && shown.has(string(key)) { //mutant:listed-on-both-shards
			l.Keys = append(l.Keys, one)
		}
	}
	return l
}

// listed returns the key of a record, if the query selects it. A record that has ended may not have been swept yet; one
// that a flipped bit has made unreadable has no key.
func (s *State) listed(q *Listing, key []byte, r Record) (one ListedKey, ok bool) {
	if len(key) == 0 || key[0] != counterRecord || r.ForgetAt <= s.time {
		return one, false
	}
	namespace, policyName, name, ok := readKeyOf(key)
	if !ok || string(namespace) != q.Namespace || q.Policy != "" && string(policyName) != q.Policy ||
		!bytes.HasPrefix(name, []byte(q.Prefix)) {
		return one, false
	}
	one = ListedKey{Policy: string(policyName), Key: string(name)}
	c := counter{policy: inlinePolicy}
	if c.decode(r.Value, nil) == nil { // an unreadable record still exists
		if c.extras.overridden(s.time) {
			one.Override = c.extras.override
		}
		one.Leases = c.extras.heldLeases(s.time)
	}
	return one, (!q.Overrides || one.Override != nil) && (!q.Leases || one.Leases != nil)
}
