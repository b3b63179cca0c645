package decisions

import (
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// EntryOf returns the entry of a status, or nil.
func EntryOf(entries []shard.Entry, s *shard.LimitStatus) *shard.Entry {
	for i := range entries {
		if e := &entries[i]; e.Key == s.Key && e.Policy == s.Policy {
			return e
		}
	}
	return nil
}

// PolicyOf returns the policy of a limit, or nil for a limit that came with the request, or if the policy no longer
// exists.
func PolicyOf(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) *policy.Policy {
	if e := EntryOf(r.Entries, s); e != nil && e.Limits != nil {
		return nil
	}
	p, _ := policies.Lookup(s.Policy)
	return p
}

// RuleOf returns the limit of a status with the numbers of its policy, for display: the key may have an override.
func RuleOf(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) (policy.Limit, bool) {
	var limits []policy.Limit
	if e := EntryOf(r.Entries, s); e != nil && e.Limits != nil {
		limits = e.Limits
	} else if p, found := policies.Lookup(s.Policy); found && e != nil {
		limits, _ = p.Resolve(e.Tier)
	}
	for _, l := range limits {
		if l.Name == s.Limit {
			return l, true
		}
	}
	return policy.Limit{}, false
}

// Denies reports whether the limit itself denied and can deny (it is neither in shadow nor unlimited).
func Denies(s *shard.LimitStatus) bool { return !s.Allowed && !s.Shadow && !s.Unlimited }

// Stands reports whether the limit or a block of its key denied.
func Stands(s *shard.LimitStatus) bool { return Denies(s) || s.Blocked }

// BlockName returns the name of a key's block: "lockout" if a ladder set it, "block" if it was set by hand, or by a
// ladder that its policy no longer has.
func BlockName(s *shard.LimitStatus) string {
	if s.ByHand || s.BlockedUntil != 0 && s.LockoutLevel == 0 {
		return "block"
	}
	return "lockout"
}

// SameKey reports whether two statuses belong to one policy on one key.
func SameKey(a, b *shard.LimitStatus) bool { return a.Policy == b.Policy && a.Key == b.Key }
