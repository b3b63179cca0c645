package policy

import (
	"sort"

	"github.com/stint-io/stint/limit"
)

// Set is all policies of a configuration, for every namespace. It is immutable: any number of goroutines may read it, and
// it is replaced, never changed.
type Set struct {
	byName map[string]*Policy
	names  []string // sorted

	rules          Rules
	hashed         map[string]bool // namespaces whose keys are hashed; nil: none
	repeatsDenials bool
	version        uint64
}

// At returns a copy of the set, marked with its version of the cluster's policies; 0: no version.
func (s *Set) At(version uint64) *Set {
	of := *s
	of.version = version
	return &of
}

// Version returns the version of the cluster's policies; 0: it is not known.
func (s *Set) Version() uint64 { return s.version }

// NewSet makes a Set of validated policies, and prepares each for Resolve. It panics if two have the same name: Parse has
// already refused that. The policies must not be changed afterwards.
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

// Lookup returns the policy of a name.
func (s *Set) Lookup(name string) (*Policy, bool) {
	p, ok := s.byName[name]
	return p, ok
}

// TierIsUnlimited reports whether a tier of a policy lifts all its limits. There may be no such policy or tier.
func (s *Set) TierIsUnlimited(name, tier string) bool {
	p, ok := s.Lookup(name)
	return ok && p.Tiers[tier].Unlimited
}

// Names returns the names of the policies in alphabetical order. The caller must not change the slice.
func (s *Set) Names() []string { return s.names }

// RepeatsDenials reports whether any of the policies has a DenyCache.
func (s *Set) RepeatsDenials() bool { return s.repeatsDenials }

// DefaultRetention is the Retention of a policy that does not set it: 10 minutes.
const DefaultRetention limit.Span = 10 * 60 * 1_000_000

// DenyCacheMax bounds a policy's DenyCache: 10 s. A denial that is checked only once in that time already costs nothing,
// and a longer cache would only make denials staler.
const DenyCacheMax limit.Span = 10 * 1_000_000

// Policy is a named set of limits that are enforced together.
type Policy struct {
	Name        string
	Limits      []Limit // in the order of the file: the order of every answer
	Tiers       map[string]Tier
	DefaultTier string // "": the policy has no default
	Security    bool
	Shadow      bool
	Headers     []string // styles: StyleIETF and so on
	Reason      string   // shown on a denial by a block, or by a limit without a reason of its own
	// Retention is how long an idempotency record lives. It is at most the longest window of the policy, or
	// DefaultRetention if that is longer.
	Retention limit.Span
	// Lockout blocks a key for longer and longer after violations; nil: no lockout.
	Lockout *Lockout
	// CountDenied: denied requests are counted too.
	CountDenied bool
	// DenyCache is how long a node may repeat a denial without asking the owner again, at most DenyCacheMax. A repeated
	// denial is at most that old. 0: never. It excludes CountDenied and Lockout, which need every denial.
	DenyCache limit.Span
	OnExpire  OnExpire // for holds that set none themselves; in a Set never OnExpireDefault
	OnChange  OnChange
	// UnknownKey controls requests for keys without an override.
	UnknownKey UnknownKey
	// MaxKeys is how many keys of one namespace a shard counts under the policy; 0: as many as there is memory for.
	MaxKeys uint64
	// Meter bills what is admitted; nil: nothing is billed.
	Meter *Meter
	// Notify are the names of the sinks that get the events of the policy: its thresholds and its spikes.
	Notify []string
	// Parent is the policy that is decided together with this one, on the key without its last "/" and the text after it;
	// "": none.
	Parent string

	// byTier holds the limits with every tier's numbers, computed once by NewSet. "" is the default tier.
	byTier    map[string][]Limit
	byDefault []Limit // byTier[""], which nearly every request uses
}

// Limit is a limit.Limit with its names and display texts.
type Limit struct {
	Name   string
	Unit   string // requests, tokens, bytes, cents; "": requests
	Shadow bool   // counted, reports when it would have denied, but never denies
	Reason string // shown on a denial by this limit; "": the policy's Reason
	// OnRecovery is how the limit continues after a restore from a backup.
	OnRecovery OnRecovery
	// OnExceeded is what becomes of a request that this limit has no room for.
	OnExceeded OnExceeded
	// Thresholds are the uses at which an event is fired, in the order of the file.
	Thresholds []Threshold
	// Unlimited: a tier lifts this limit. The limit then never denies. Its own algorithm still counts it, so that another
	// tier finds what was used, and a key at rest is forgotten. It is false in Policy.Limits.
	Unlimited bool
	limit.Limit
}

// Lockout is a ladder of blocks. The After-th violation in a row blocks the key for Base, and each further violation for
// Factor times as long as the block before, up to Max. The ladder starts again after ForgiveAfter without a violation,
// counted from the newest violation or from the end of its block, whichever is later. (X11.)
type Lockout struct {
	After        uint32 // at least 1
	Base         limit.Span
	Factor       uint32     // at least 1
	Max          limit.Span // at least Base
	ForgiveAfter limit.Span
	OnDenied     bool // a denial by a limit is also a violation; needs CountDenied. A denial by the block itself is not a violation
	StepDown     bool // a success goes one level down; else it clears failures and ladder
}

// DefaultLockout returns a Lockout for a ladder of which only the first block is given: each block is twice as long, up to
// an hour, or up to base if that is longer, and violations are forgiven after a day. The caller must set After.
func DefaultLockout(base limit.Span) Lockout {
	return Lockout{Base: base, Factor: 2, Max: max(hour, base), ForgiveAfter: 24 * hour}
}

// OnExpire is what happens to a hold that expires unsettled. Its numbers are stored in logs: append new ones, never renumber.
type OnExpire uint8

// The ways in which an unsettled hold ends.
const (
	OnExpireDefault OnExpire = 0 // of a request: as the policy says
	OnExpireCancel  OnExpire = 1 // the units are given back
	OnExpireCommit  OnExpire = 2 // the units stay spent, which is a violation
)

// OnChange is what happens to used units when a limit's numbers change. Additive and Restart apply only to a new revision
// of the policy. A caller can switch at will between the numbers of the policy's tiers and of the key's override, so
// between those, used units stay used, or with Proportional keep their share.
type OnChange uint8

// The ways to change.
const (
	AsIs         OnChange = 0 // used units stay used
	Proportional OnChange = 1 // the used share of the quota stays, rounded up
	Additive     OnChange = 2 // the remaining units grow or shrink by as much as the quota does
	Restart      OnChange = 3 // counting starts again
)

// OnRecovery is how a limit continues after a restore from a backup, which does not know what was used since it was made.
type OnRecovery uint8

// The ways to continue.
const (
	RecoverFull OnRecovery = 0 // everything may have been used: nothing is admitted until that no longer counts (limit.Full)
	RecoverKeep OnRecovery = 1 // what the backup says was used; what was used since then is admitted again
)

// UnknownKey is what happens to a request for a key without an override.
type UnknownKey uint8

// The ways to treat an unknown key.
const (
	UnknownKeyAllow UnknownKey = 0 // the key has the numbers of its tier
	UnknownKeyDeny  UnknownKey = 1 // the request is refused, and nothing is counted
)

// Override is the settings of one key.
type Override struct {
	Tier    string               // replaces the default tier; "": none. The request's tier takes precedence
	Limits  map[string]TierLimit // replace the tier's numbers, by limit name
	Expires limit.Time           // the override ends at this instant; 0: never
}

// Tier replaces numbers of a policy's limits for some of its keys.
type Tier struct {
	Limits    map[string]TierLimit // by limit name
	Unlimited bool                 // every limit of the policy is counted, but none denies
}

// TierLimit is the changes that a tier makes to one limit; nil keeps the policy's number.
type TierLimit struct {
	Quota, Refill, Rate *uint64
}
