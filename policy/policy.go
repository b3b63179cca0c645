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

	repeatsDenials bool
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
		if p.OnExpire == OnExpireDefault {
			p.OnExpire = OnExpireCancel
		}
		s.byName[p.Name] = p
		s.names = append(s.names, p.Name)
		s.repeatsDenials = s.repeatsDenials || p.DenyCache > 0
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

// RepeatsDenials reports whether any of the policies has a DenyCache.
func (s *Set) RepeatsDenials() bool { return s.repeatsDenials }

// DefaultRetention is the Retention of a policy that names none: 10 minutes.
const DefaultRetention limit.Span = 10 * 60 * 1_000_000

// DenyCacheMax bounds a policy's DenyCache: 10 s. What is asked once in that time costs nothing already; longer, a denial
// would only be staler.
const DenyCacheMax limit.Span = 10 * 1_000_000

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
	// Lockout blocks a key for longer and longer after violations; nil: the policy has none.
	Lockout *Lockout
	// CountDenied: a denied request is counted too.
	CountDenied bool
	// DenyCache is how long a node may repeat a denial that it saw without asking again, at most DenyCacheMax: such an
	// answer is older than the request by that much at most. 0: never. Not with CountDenied or a Lockout, to which every
	// denial matters.
	DenyCache limit.Span
	OnExpire  OnExpire // of holds that say nothing themselves; in a Set never OnExpireDefault
	OnChange  OnChange
	// Parent is a policy that is decided together with this one, on the key without its last "/" and what follows;
	// "" none.
	Parent string

	// byTier holds the limits with every tier's numbers filled in, made once by NewSet. "" is the default tier.
	byTier    map[string][]Limit
	byDefault []Limit // byTier[""], which nearly every request asks for
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

// Lockout is a ladder of blocks. The After-th violation in a row blocks the key for Base, each further one for Factor
// times as long as the one before, up to Max. Without a violation for ForgiveAfter, counted from the newest violation
// or the end of its block, whichever is later, the ladder begins again. (SEMANTICS X11.)
type Lockout struct {
	After        uint32 // at least 1
	Base         limit.Span
	Factor       uint32     // at least 1
	Max          limit.Span // at least Base
	ForgiveAfter limit.Span
	OnDenied     bool // a denial by a limit is a violation too; needs CountDenied. A denial by the block itself is none
	StepDown     bool // a success steps one level down; else it clears failures and ladder
}

// DefaultLockout has the numbers of a ladder that gives only its first block: twice as long each time, up to an hour or
// that first block if it is longer, forgiven after a day. After is left to be said.
func DefaultLockout(base limit.Span) Lockout {
	return Lockout{Base: base, Factor: 2, Max: max(hour, base), ForgiveAfter: 24 * hour}
}

// OnExpire says what becomes of a hold that nobody settled. The numbers stand in logs: append, never renumber.
type OnExpire uint8

// The ends of a hold that nobody settled.
const (
	OnExpireDefault OnExpire = 0 // of a request: what the policy says
	OnExpireCancel  OnExpire = 1 // the units are given back
	OnExpireCommit  OnExpire = 2 // the units stay spent, and that is a violation
)

// OnChange says what becomes of what was used when a limit's numbers change, or the key's tier.
type OnChange uint8

// The ways to change.
const (
	AsIs         OnChange = 0 // used units stay used
	Proportional OnChange = 1 // the used share of the quota stays, rounded up
	Additive     OnChange = 2 // what remains grows or shrinks by as much as the quota does
	Restart      OnChange = 3 // counting starts again
)

// Override is what one key has of its own.
type Override struct {
	Tier    string               // replaces the default tier; "" none. A tier that the request names goes before it
	Limits  map[string]TierLimit // replace the tier's numbers, by limit name
	Expires limit.Time           // from this instant on there is no override; 0: never
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
