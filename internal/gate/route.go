package gate

import (
	"errors"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Route is one route of a gate, or the routes of several readings of one path (also). It never changes.
type Route struct {
	gate      *Gate
	rules     *policy.GateRoute
	match     matcher
	open      bool   // of all routes of the path together
	knowsKeys bool   // an invented API key is refused here, so that an API key may be an identity
	also      *Route // for another reading of the path; may be nil
}

// Open reports whether a request without a decision passes.
func (r *Route) Open() bool { return r.open }

// with returns the route of requests that count as both.
func (r *Route) with(other *Route) *Route {
	both := *r
	both.open, both.also = r.open && other.open, other //mutant:security-reading-fails-open
	return &both
}

// Entry is a policy and key that a request counts.
type Entry struct {
	Policy, Key string
	Cost        uint64
}

// Entries returns the entries of a question, without repeating a policy and key. There may be none. The error is a
// *Refusal, or that of subject.
func (r *Route) Entries(q *Question, subject Subject) ([]Entry, error) {
	entries, err := r.own(q, subject)
	for other := r.also; other != nil && err == nil; other = other.also {
		var more []Entry
		more, err = other.own(q, subject) //mutant:api-key-of-another-reading
		for _, e := range more {
			entries = appendEntry(entries, e, greaterCost)
		}
	}
	return entries, err
}

// own returns the entries of a route alone. Each route identifies the client: an API key that another route knows has
// no count of its own here.
func (r *Route) own(q *Question, subject Subject) ([]Entry, error) {
	s := newSender(q, r, subject)
	entries := make([]Entry, 0, len(r.rules.Entries))
	for i := range r.rules.Entries {
		rules := &r.rules.Entries[i]
		key, err := r.key(&rules.Key, s)
		if errors.Is(err, errMissing) && r.gate.rules.OnMissing == policy.MissingSkip {
			continue
		}
		if errors.Is(err, errMissing) {
			err = r.gate.missing()
		}
		if err != nil {
			return nil, err
		}
		entries = appendEntry(entries, Entry{rules.Policy, key, r.gate.cost(&rules.Cost, q)}, sumOfCosts)
	}
	return entries, nil
}

// key fills in a template. Of several errors a refusal, or the failure to verify a token, wins over errMissing.
func (r *Route) key(template *policy.Template, s *sender) (key string, err error) {
	key = template.Key(func(field string) string {
		value, missing := s.value(field)
		switch {
		case errors.Is(missing, errMissing) && r.gate.rules.OnMissing == policy.MissingShared:
			return sharedIdentity
		// A refusal stays: only missing identities may be skipped.
		//mutant:missing-field-hides-refusal
		case missing != nil && (err == nil || errors.Is(err, errMissing)):
			err = missing
		}
		return value
	})
	return key, err
}

// appendEntry appends an entry. If there is one of its policy and key, that gets the cost of both instead.
func appendEntry(entries []Entry, e Entry, both func(a, b uint64) uint64) []Entry {
	for i := range entries {
		if entries[i].Policy == e.Policy && entries[i].Key == e.Key {
			entries[i].Cost = both(entries[i].Cost, e.Cost)
			return entries
		}
	}
	return append(entries, e)
}

// sumOfCosts is the cost of two entries of one route whose keys have come out the same.
func sumOfCosts(a, b uint64) uint64 { return min(a+b, limit.MaxCost) }

// greaterCost is the cost of an entry in two readings of the same path: it is counted once.
func greaterCost(a, b uint64) uint64 { return max(a, b) }
