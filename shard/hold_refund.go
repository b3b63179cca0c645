package shard

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// The units of a decision cannot be distinguished in its counters from those of other decisions. So the refund names
// the limits that have counted it, and only those get units back:
//
//   - not a limit that was added to the policy, or renamed, after the decision;
//   - not a limit in shadow that would have denied it, since such a limit does not count what it denies;
//   - not a concurrency limit, which counts only holds, nor any limit that it has become since;
//   - not a limit that has counted only a part of the cost, like a bucket that a tier has lifted.
//
// Nor does a state that began later than the decision, from rest or under numbers that do not continue the old ones
// (the since of a counter): it does not contain the old count. A limit with a changed quota is still the same limit. A
// limit that has left the policy gets units back as long as the record has it. A decision without known limits gives
// nothing back: its units stay spent, and nothing is admitted that should not be. A hold needs none of this: its
// counter knows which limits did not count it.

// LimitPrint is a hash of a limit's name, in 16 bits to keep ids short. If two limits of a counter have the same print,
// neither gets anything back.
type LimitPrint uint16

// printOf returns the print of a limit's name in ids and records: the function never changes.
func printOf(name string) LimitPrint { return LimitPrint(xxhash.Sum64String(name)) }

// Taken returns the entries of a counted request in the form that the settlement of its decision needs: each with the
// units that were taken (the granted ones of a Partial), and the limits that have counted them.
func Taken(r *Request, d *Decision) []Entry {
	entries, rest := make([]Entry, 0, len(r.Entries)), d.Limits
	for i := range r.Entries {
		var e Entry
		var took bool
		if e, rest, took = takenEntry(r, i, rest, nil); took {
			entries = append(entries, e)
		}
	}
	return entries
}

// takenEntry returns the i-th of these entries, and the remaining statuses. Its own statuses are the first of rest. The
// limits that have counted it are appended to counted. A parent without a status has taken nothing: the policy has got
// it since.
func takenEntry(r *Request, i int, rest []LimitStatus, counted []LimitPrint) (_ Entry, _ []LimitStatus, took bool) {
	e := r.Entries[i]
	n := r.StatusesOf(i, rest)
	if took = n > 0 || r.Own == 0 || i < r.Own; r.Op == Reserve { //mutant:new-parent-is-given-back
		return e, rest[n:], took
	}
	if r.Op == Partial {
		e.Cost = 0
	}
	for _, s := range rest[:n] {
		e.Cost = max(e.Cost, s.Granted)                   //mutant:id-lacks-what-was-granted
		if !s.Uncounted && (s.Allowed || r.Op == Count) { //mutant:concurrency-refunds-what-it-became
			counted = append(counted, printOf(s.Limit))
		}
	}
	e.Counted = counted
	return e, rest[n:], took
}

// StatusesOf returns how many of the first statuses belong to the i-th entry. Some may be missing: then those present
// belong to later entries.
func (r *Request) StatusesOf(i int, rest []LimitStatus) (n int) {
	e := &r.Entries[i]
	for n < len(rest) && rest[n].Policy == e.Policy && rest[n].Key == e.Key && (e.Limits == nil || n < len(e.Limits)) {
		n++
	}
	if i+1 == len(r.Entries) {
		return n
	}
	// Inline limits may follow a policy with their label as its name.
	if next := &r.Entries[i+1]; e.Limits == nil && next.Policy == e.Policy && next.Key == e.Key {
		n = max(0, n-len(next.Limits))
	}
	return n
}

// uncounted returns the names of the limits to which a decision gives nothing back: those that are not in counted.
func (s countedLimits) uncounted(counted []LimitPrint) (names []string) {
	for i := range s {
		print, alike := printOf(s[i].name), 0
		for j := range s {
			if printOf(s[j].name) == print {
				alike++
			}
		}
		if alike > 1 || !slices.Contains(counted, print) { //mutant:uncounted-limit-refunded
			names = append(names, s[i].name)
		}
	}
	return names
}

// release gives back the units of a hold that is no longer in the counter.
func (s countedLimits) release(h *hold, back bool, at limit.Time) {
	for i := range s {
		l := &s[i]
		//mutant:commit-keeps-concurrency //mutant:commit-keeps-lease-in-clusters
		if (back || l.limit.Algorithm == limit.Concurrency) && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, h.cost, h.taken, at)
		}
	}
}

// refund gives units of a hold back to all limits except concurrency limits. For a decision the hold is hold{taken:
// decidedAt}, which was never in the counter.
func (s countedLimits) refund(h *hold, units uint64, at limit.Time) {
	if units == 0 {
		return
	}
	for i := range s {
		l := &s[i]
		if l.limit.Algorithm != limit.Concurrency && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, units, h.taken, at)
		}
	}
}
