package shard

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// What a decision has taken leaves nothing in its counters that could be told from what others took. So whoever refunds
// it says which limits have counted it, and only to those anything is given back:
//
//   - not to a limit that was added to the policy, or named anew, after the decision;
//   - not to one in shadow that would have denied it, as what such a limit denies it does not count;
//   - not to a concurrency limit, which only holds count on, nor to what it has become since.
//
// A limit whose numbers or algorithm were changed is still the same limit, and one that left the policy gets back as long
// as the record has it. What was decided where nobody can tell what counted it gives nothing back: then units stay spent,
// and none is admitted that should not be. A hold needs none of this: its counter knows what did not count it.

// LimitPrint stands for the name of a limit, in 16 bits, as an id is to be short. Two limits of a counter that it cannot
// tell apart get nothing back.
type LimitPrint uint16

// printOf is how the name of a limit stands in ids and in records: it never changes.
func printOf(name string) LimitPrint { return LimitPrint(xxhash.Sum64String(name)) }

// Taken lists the entries of a request that was counted, as the settlement of its decision names them: each with the
// units that were taken, of a Partial those that were granted, and the limits that have counted them.
func Taken(r *Request, d *Decision) []Entry {
	entries, rest := make([]Entry, len(r.Entries)), d.Limits
	for i := range entries {
		entries[i], rest = takenEntry(r, i, rest, nil)
	}
	return entries
}

// takenEntry is the i-th of them. Its statuses are the first of rest, and what it has not used comes back. What has
// counted it is appended to counted.
func takenEntry(r *Request, i int, rest []LimitStatus, counted []LimitPrint) (Entry, []LimitStatus) {
	e := r.Entries[i]
	n := r.statusesOf(i, rest)
	if r.Op == Reserve {
		return e, rest[n:]
	}
	if r.Op == Partial {
		e.Cost = 0
	}
	for _, s := range rest[:n] {
		e.Cost = max(e.Cost, s.Granted)
		if !s.Uncounted && (s.Allowed || r.Op == Count) {
			counted = append(counted, printOf(s.Limit))
		}
	}
	e.Counted = counted
	return e, rest[n:]
}

// statusesOf is how many of the first statuses are those of the i-th entry. Some may be missing: then what is there is of
// later entries.
func (r *Request) statusesOf(i int, rest []LimitStatus) (n int) {
	e := &r.Entries[i]
	for n < len(rest) && rest[n].Policy == e.Policy && rest[n].Key == e.Key && (e.Limits == nil || n < len(e.Limits)) {
		n++
	}
	if i+1 == len(r.Entries) {
		return n
	}
	// Inline limits may come behind a policy with the name of their label.
	if next := &r.Entries[i+1]; e.Limits == nil && next.Policy == e.Policy && next.Key == e.Key {
		n = max(0, n-len(next.Limits))
	}
	return n
}

// uncounted names the limits of the counter that a decision gives nothing back to: those that are not among what has
// counted it.
func (c *counter) uncounted(counted []LimitPrint) (names []string) {
	for i := range c.limits {
		print, alike := printOf(c.limits[i].name), 0
		for j := range c.limits {
			if printOf(c.limits[j].name) == print {
				alike++
			}
		}
		if alike > 1 || !slices.Contains(counted, print) {
			names = append(names, c.limits[i].name)
		}
	}
	return names
}
