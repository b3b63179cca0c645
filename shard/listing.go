package shard

import (
	"bytes"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// Listing says which keys of a shard to list.
type Listing struct {
	Namespace string
	Policy    string // "": all, inline limits too
	Prefix    string // of the keys; "": all
	Overrides bool   // only keys that have an override
	From      uint64 // 0, or Listed.Next of the listing before
	Count     int    // how many; one more for each that has the hash of another
}

// ListedKey is a key that a policy keeps something of.
type ListedKey struct {
	Policy   string // "~" and the label for inline limits
	Key      string
	Override *policy.Override // nil: it has none
}

// Listed is a part of the keys of a shard, in no order.
type Listed struct {
	Keys []ListedKey
	Next uint64 // 0: there are no more
}

// listRecords bounds a listing that finds little: so many take about a millisecond, while nothing is installed.
const listRecords = 2000

// List reads keys of a replica, without a commit, so it may be behind. A key that is kept from the first call to the last is in
// exactly one of the answers, whatever is counted meanwhile and whichever replica answers.
func (s *State) List(q Listing) (l Listed) {
	seen, last := 0, q.From
	for key, r := range s.table.Scan(q.From) {
		place := table.Place(keyLayout{}, key)
		if place != last && (seen >= listRecords || len(l.Keys) >= q.Count) {
			l.Next = place
			return l
		}
		seen, last = seen+1, place
		if one, ok := s.listed(&q, key, r); ok {
			l.Keys = append(l.Keys, one)
		}
	}
	return l
}

// listed returns the key of a record, if it is asked for. A record that has ended may not have been swept yet; one that a flipped
// bit has made unreadable has no key.
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
	var c counter
	if c.decode(r.Value, nil) == nil && c.extras.overridden(s.time) { // a record that cannot be read is kept all the same
		one.Override = c.extras.override
	}
	return one, !q.Overrides || one.Override != nil
}
