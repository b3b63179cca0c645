package decisions

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Inline stands for the policy of limits that came with a request, in all places but the answer: a caller may name them
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
