package policy

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// Set is all policies of a configuration, for every namespace. It is immutable: any number of goroutines may read it,
// and it is replaced, never changed.
type Set struct {
	byName map[string]*Policy
	names  []string // sorted

	rules          Rules
	hashed         map[string]bool // namespaces with hashed keys; may be nil
	repeatsDenials bool
	grantsLeases   bool
	hasMeters      bool
	version        uint64
}

// emptySet stands for a nil set.
var emptySet = NewSet(nil)

// At returns a copy of the set, marked with its version of the cluster's policies; 0 means no version.
func (s *Set) At(version uint64) *Set {
	of := *s
	of.version = version
	return &of
}

// Version returns the version of the cluster's policies, or 0 if it is not known.
func (s *Set) Version() uint64 { return s.version }

// NewSet makes a Set of validated policies, and prepares each for Resolve. It panics if two have the same name: Parse
// has already refused that. The policies must not be changed afterwards.
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
		s.grantsLeases = s.grantsLeases || p.Lease != nil
		s.hasMeters = s.hasMeters || p.Meter != nil
	}
	slices.Sort(s.names)
	return s
}

// Lookup returns the policy with a name.
func (s *Set) Lookup(name string) (*Policy, bool) {
	p, ok := s.byName[name]
	return p, ok
}

// TierIsUnlimited reports whether a tier of a policy lifts all its limits. It is false if there is no such policy or
// tier.
func (s *Set) TierIsUnlimited(name, tier string) bool {
	p, ok := s.Lookup(name)
	return ok && p.Tiers[tier].Unlimited
}

// Names returns the names of the policies in alphabetical order. The caller must not change the slice.
func (s *Set) Names() []string { return s.names }

// RepeatsDenials reports whether any of the policies has a DenyCache.
func (s *Set) RepeatsDenials() bool { return s.repeatsDenials }

// GrantsLeases reports whether any of the policies has a Lease.
func (s *Set) GrantsLeases() bool { return s.grantsLeases }

// DefaultRetention is the Retention of a policy that does not set it: 10 minutes.
const DefaultRetention limit.Span = 10 * 60 * 1_000_000

// DenyCacheMax bounds a policy's DenyCache: 10 s, as its tag says. Checking a denial once in that time already costs
// nothing, and a longer cache would only make denials staler.
const DenyCacheMax limit.Span = 10 * 1_000_000

// Policy is a named set of limits that are enforced together.
type Policy struct {
	Name string
	// Security marks a policy that guards an account. Clients fail closed.
	Security bool `policy:"security" about:"Guards an account: fails closed, and warns of bursts at edges of windows."`
	// Shadow makes every limit count and none deny.
	Shadow bool `policy:"shadow" about:"Every limit is counted and none denies."`
	// Headers are header styles: StyleIETF and so on.
	Headers []string `policy:"headers" text:"style" about:"Headers in which answers tell about the limits."`
	// Reason is shown on a denial by a block, or by a limit without a reason of its own.
	Reason string `policy:"reason" text:"reason" about:"Text for a denied caller. It must be safe to show."`
	// Retention is how long an idempotency record lives. It is at most the longest window of the policy, or
	// DefaultRetention if that is longer.
	Retention limit.Span `policy:"idempotency_retention,told" usual:"10m" about:"Life of an id. Absent: 10m."`
	// OnExpire is for holds that set none themselves. In a Set it is never OnExpireDefault.
	OnExpire OnExpire `policy:"on_expire" usual:"cancel" about:"Fate of a hold that is not settled in time."`
	OnChange OnChange `policy:"on_change" about:"Treatment of used units when a limit's numbers change."`
	// CountDenied makes denied requests count too.
	CountDenied bool `policy:"count_denied" about:"A denied request is counted too."`
	// DenyCache is how long a node may repeat a denial without asking the owner again, at most DenyCacheMax. A repeated
	// denial is at most that old. 0 disables the cache. It excludes CountDenied and Lockout, which need every denial.
	DenyCache limit.Span `policy:"deny_cache" max:"10s" about:"How long a denial may be repeated after it was true."`
	// Parent is a policy that is decided together with this one, on the key up to its last "/"; "" if there is none.
	Parent string `policy:"parent" about:"A policy that is decided too, on the key before its last /."`
	// UnknownKey controls requests for keys without an override.
	UnknownKey UnknownKey `policy:"unknown_key" about:"Treatment of a request for a key without an override."`
	// MaxKeys is how many keys of one namespace are counted under the policy; 0: as many as there is memory for. Each
	// shard counts its part of them.
	MaxKeys uint64 `policy:"max_keys" min:"1" about:"Most keys of a namespace; leave it out for no cap."`
	// Limits are in the order of every answer. A policy of 16 limits and 64 tiers resolves into their product at once.
	Limits []Limit         `policy:"limits,required" least:"1" most:"16" lines:"items" about:"Enforced together."`
	Tiers  map[string]Tier `policy:"tiers" about:"Numbers for some keys, by the names of tiers and limits."`
	// DefaultTier is the tier of a request without one; "" selects the limits' own numbers.
	DefaultTier string `policy:"default_tier" about:"Tier of a request that names none."`
	// Lockout blocks a key for longer and longer after violations; nil disables it.
	Lockout *Lockout `policy:"lockout" about:"Blocks of growing length after repeated violations."`
	// Meter bills admitted units; nil disables billing.
	Meter *Meter `policy:"meter" about:"Bills what is admitted."`
	// Lease lets holders spend units of a key without asking its owner; nil disables leases.
	Lease *Lease `policy:"lease" about:"Holders spend units of a key in memory, without asking its owner."`
	// Notify names the sinks that get the events of the policy: its thresholds and its spikes.
	Notify []string `policy:"notify" text:"name" most:"8" about:"Sinks that get the events of the policy."`

	// byTier holds the limits with every tier's numbers, computed once by NewSet. "" is the default tier.
	byTier    map[string][]Limit
	byDefault []Limit // byTier[""], which nearly every request uses
}

// Limit is a limit.Limit with its names and display texts.
type Limit struct {
	Name string `policy:"name,required" text:"name" about:"Name in the policy, for answers and tiers."`
	// Unit is for display: requests, tokens, bytes, cents; "" means requests.
	Unit string `policy:"unit" text:"name" about:"What is counted, for people. Absent: requests."`
	// Shadow makes the limit count and report when it would have denied, but never deny.
	Shadow bool `policy:"shadow" about:"Counted and reported, but it never denies."`
	// Reason is shown on a denial by this limit; "" means the policy's Reason.
	Reason string `policy:"reason" text:"reason" about:"Text for a caller that this limit denies."`
	// OnRecovery is how the limit continues after a restore from a backup.
	OnRecovery OnRecovery `policy:"on_recovery" about:"What counts as used after a restore from a backup."`
	// OnExceeded is the fate of a request that exceeds this limit.
	OnExceeded OnExceeded `policy:"on_exceeded" about:"What becomes of a request that it has no room for."`
	// Thresholds are the uses that fire an event, in the order of the file.
	Thresholds []Threshold `policy:"thresholds" most:"8" about:"Uses that fire an event: 80% of the quota, or 500."`
	// Unlimited means that a tier lifts this limit: it never denies. Its own algorithm still counts, so that another
	// tier finds the units used, and a key at rest is forgotten. It is false in Policy.Limits.
	Unlimited bool
	limit.Limit
}

// OnExpire is the fate of a hold that expires unsettled. Its numbers are stored in logs: append new ones, never
// renumber.
type OnExpire uint8

// The ways in which an unsettled hold ends.
const (
	OnExpireDefault OnExpire = 0 // of a request: as configured in the policy
	OnExpireCancel  OnExpire = 1 // the units are given back
	OnExpireCommit  OnExpire = 2 // the units stay spent, which is a violation
)

// OnChange is the fate of used units when a limit's numbers change. Additive and Restart apply only to a new revision
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

// OnRecovery is how a limit continues after a restore from a backup, which lacks the usage since it was made.
type OnRecovery uint8

// The ways to continue.
const (
	// RecoverFull takes everything as used: nothing is admitted until that no longer counts (limit.Full).
	RecoverFull OnRecovery = 0
	RecoverKeep OnRecovery = 1 // the usage in the backup; usage since then is admitted again
)

// OnExceeded is the fate of a request that exceeds a limit. In every case it does not pass, and nothing is counted.
type OnExceeded uint8

// The ways to treat such a request. A limit with ExceededChallenge is called soft, any other one hard.
const (
	ExceededDeny      OnExceeded = 0 // it is denied
	ExceededChallenge OnExceeded = 1 // it is challenged, unless a hard limit or a block denies it
)

// UnknownKey is the fate of a request for a key without an override.
type UnknownKey uint8

// The ways to treat an unknown key.
const (
	UnknownKeyAllow UnknownKey = 0 // the key has the numbers of its tier
	UnknownKeyDeny  UnknownKey = 1 // the request is refused, and nothing is counted
)

// Override is the settings of one key.
type Override struct {
	Tier    string               // replaces the default tier; "" does not. The request's tier takes precedence
	Limits  map[string]TierLimit // replace the tier's numbers, by limit name
	Expires limit.Time           // when the override ends; 0 means never
}

// Tier replaces numbers of a policy's limits for some of its keys.
type Tier struct {
	Limits    map[string]TierLimit // by limit name
	Unlimited bool                 // every limit of the policy is counted, but none denies
}

// TierLimit is the changes that a tier makes to one limit; a nil field keeps the policy's number.
type TierLimit struct {
	Quota  *uint64 `policy:"quota" about:"Units that fit."`
	Refill *uint64 `policy:"refill" about:"Tokens of a token bucket that come back in one per."`
	Rate   *uint64 `policy:"rate" about:"Units that GCRA admits in one per."`
}
