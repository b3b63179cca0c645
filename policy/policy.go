package policy

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

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

	// byTier holds the limits with every tier's numbers, computed once by NewSet; nil before. "" is the default tier.
	// The lists of tiers that change nothing are Limits itself.
	byTier    map[string][]Limit
	byDefault []Limit    // byTier[""], which nearly every request uses
	longest   limit.Span // longestWindow
}

// Has reports whether the policy has a limit with this name.
func (p *Policy) Has(limit string) bool { return p.indexOf(limit) >= 0 }

// indexOf returns the index of a limit in the policy, or -1.
func (p *Policy) indexOf(limit string) int {
	return slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == limit })
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

// UnknownKey is the fate of a request for a key without an override.
type UnknownKey uint8

// The ways to treat an unknown key.
const (
	UnknownKeyAllow UnknownKey = 0 // the key has the numbers of its tier
	UnknownKeyDeny  UnknownKey = 1 // the request is refused, and nothing is counted
)
