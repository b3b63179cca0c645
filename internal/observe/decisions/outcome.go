package decisions

import (
	"iter"
	"slices"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Inline is the policy name, for everyone but the caller, of limits that came with a request: a caller may name them
// freely.
const Inline = "inline"

// PolicyName is the policy of an entry for events.
func PolicyName(e *shard.Entry) string {
	if e.Limits != nil {
		return Inline
	}
	return e.Policy
}

// Outcome is the outcome of a decision as in the metric stint_decisions_total.
func Outcome(r *shard.Request, d *shard.Decision) string {
	switch {
	case d.Replayed:
		return "replayed"
	case r.Op == shard.Settle:
		return settlements[r.Settlement.Action]
	case r.Op == shard.Count:
		return "counted"
	case d.Leased():
		return "allowed_leased"
	case d.Repeated():
		return "denied_cached"
	case d.Challenged():
		return "challenged"
	case !d.Allowed && slices.ContainsFunc(d.Limits, func(s shard.LimitStatus) bool { return s.Blocked }):
		return "locked_out"
	case !d.Allowed:
		return "denied"
	case d.ShadowDenied:
		return "shadow_denied"
	case r.Op == shard.Reserve:
		return "reserved"
	}
	return "allowed"
}

// settlements maps each action to the name of its effect.
var settlements = map[shard.Action]string{
	shard.ActionCommit:  "committed",
	shard.ActionCancel:  "cancelled",
	shard.ActionExtend:  "extended",
	shard.ActionSuccess: "success",
	shard.ActionFailed:  "failed",
}

// Denies reports whether the limit itself denied and can deny (it is neither in shadow nor unlimited).
func Denies(s *shard.LimitStatus) bool { return !s.Allowed && !s.Shadow && !s.Unlimited }

// Stands reports whether the limit or a block of its key denied.
func Stands(s *shard.LimitStatus) bool { return Denies(s) || s.Blocked }

// DeniedBy returns the limits that denied, and after them the lockouts and the blocks by hand, which belong to no
// limit.
func DeniedBy(d *shard.Decision) (names []string) {
	for s, name := range denials(d) {
		names = append(names, s.Policy+"/"+name)
	}
	return names
}

// denials lists the reasons of a denial: the limits by name, then the blocks, each once although every limit of a
// blocked key reports it.
func denials(d *shard.Decision) iter.Seq2[*shard.LimitStatus, string] {
	return func(yield func(*shard.LimitStatus, string) bool) {
		for i := range d.Limits {
			if s := &d.Limits[i]; !d.Allowed && Denies(s) && !yield(s, s.Limit) {
				return
			}
		}
		for i := range d.Limits {
			s := &d.Limits[i]
			if !d.Allowed && s.Blocked && (i == 0 || !SameKey(s, &d.Limits[i-1])) && !yield(s, BlockName(s)) {
				return
			}
		}
	}
}

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

// EntryOf returns the entry of a status, or nil.
func EntryOf(entries []shard.Entry, s *shard.LimitStatus) *shard.Entry {
	for i := range entries {
		if e := &entries[i]; e.Key == s.Key && e.Policy == s.Policy {
			return e
		}
	}
	return nil
}

// PolicyOfStatus returns the policy of a limit, or nil for a limit that came with the request, or if the policy no
// longer exists.
func PolicyOfStatus(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) *policy.Policy {
	if e := EntryOf(r.Entries, s); e != nil && e.Limits != nil {
		return nil
	}
	p, _ := policies.Lookup(s.Policy)
	return p
}

// Rule returns the limit of a status with the numbers of its policy, for display: the key may have an override.
func Rule(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) (policy.Limit, bool) {
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

// Reason returns the text of the first limit that denied and has one: its own or its policy's. A block has the text of
// the policy. A denial never has the text of a soft limit, which would ask for a challenge.
func Reason(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	challenged := d.Challenged()
	for i := range d.Limits {
		s := &d.Limits[i]
		if !Stands(s) || s.Soft && !s.Blocked && !challenged {
			continue
		}
		if rule, _ := Rule(policies, r, s); Denies(s) && rule.Reason != "" {
			return rule.Reason
		}
		if p := PolicyOfStatus(policies, r, s); p != nil && p.Reason != "" {
			return p.Reason
		}
	}
	return ""
}

// Remaining returns the units left of the limit with least, or nil if no limit can deny.
func Remaining(d *shard.Decision) *uint64 {
	var least *uint64
	for i := range d.Limits {
		s := &d.Limits[i]
		if s.Blocked {
			return new(uint64)
		}
		if !s.Shadow && !s.Unlimited && (least == nil || s.Remaining < *least) {
			left := s.Remaining
			least = &left
		}
	}
	return least
}
