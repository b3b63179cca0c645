package policy

import (
	"sort"

	"github.com/stint-io/stint/limit"
)

// Set is every policy of a namespace-independent configuration, as one immutable value: it may be read by any number
// of goroutines and is replaced, never changed.
type Set struct {
	byName map[string]*Policy
	names  []string // sorted
}

// NewSet makes a Set of validated policies, and prepares each for Resolve. It panics on two of one name: Parse has
// refused that before. The policies must not be changed afterwards.
func NewSet(policies []*Policy) *Set {
	s := &Set{byName: make(map[string]*Policy, len(policies))}
	for _, p := range policies {
		if _, twice := s.byName[p.Name]; twice {
			panic("policy: two policies named " + p.Name)
		}
		p.resolveTiers()
		s.byName[p.Name] = p
		s.names = append(s.names, p.Name)
	}
	sort.Strings(s.names)
	return s
}

// Lookup finds a policy by name.
func (s *Set) Lookup(name string) (*Policy, bool) {
	p, ok := s.byName[name]
	return p, ok
}

// Names lists the policies in alphabetical order. The caller must not change the slice.
func (s *Set) Names() []string { return s.names }

// DefaultRetention is the Retention of a policy that names none: 10 minutes.
const DefaultRetention limit.Span = 10 * 60 * 1_000_000

// Policy is a named set of limits that are enforced together.
type Policy struct {
	Name        string
	Limits      []Limit // in the order of the file: the order of every answer
	Tiers       map[string]Tier
	DefaultTier string // "" when the policy has no default
	Security    bool
	Shadow      bool
	Headers     []string // of "ietf", "x-ratelimit", "x-quota"
	Reason      string   // shown on a denial
	// Retention is how long an idempotency record lives: at most as long as the longest window of the policy, or
	// DefaultRetention if that is more.
	Retention limit.Span

	// byTier holds the limits with every tier's numbers filled in, made once by NewSet. "" is the default tier.
	byTier map[string][]Limit
}

// Limit is a limit.Limit with the words people use for it.
type Limit struct {
	Name   string
	Unit   string // requests, tokens, bytes, cents; "" says requests
	Shadow bool   // counted, and would have denied, but never denies
	// Unlimited: a tier lifts this limit. It is counted by its own algorithm, so that another tier finds what was used
	// and a key at rest is forgotten, and never denies. Of the policy's own limits it is false.
	Unlimited bool
	limit.Limit
}

// Tier replaces numbers of a policy's limits for some of its keys.
type Tier struct {
	Limits    map[string]TierLimit // by limit name
	Unlimited bool                 // every limit of the policy is counted and none denies
}

// TierLimit is what a tier changes of one limit; nil leaves the policy's number.
type TierLimit struct {
	Quota, Refill, Rate *uint64
}
