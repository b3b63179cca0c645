package api

import (
	"cmp"
	"maps"
	"slices"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// overrideLimitsMax is the largest number of limits in a policy.
const overrideLimitsMax = 16

// putOverrideRequest translates and validates an override. The shard checks that the policy has the tier and the
// limits.
func putOverrideRequest(m *stintv1.PutOverrideRequest, actor string) (shard.Request, error) {
	r, err := adjustFields{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	if err = cmp.Or(err, invalid("tier", optional(m.Tier, policy.NameProblem))); err != nil {
		return r, err
	}
	if m.Tier == "" && len(m.Limits) == 0 {
		return r, shard.Invalidf("tier", "is missing, and so are limits: an override changes at least one of them")
	}
	if len(m.Limits) > overrideLimitsMax {
		return r, shard.Invalidf("limits", "are %d: at most %d are allowed", len(m.Limits), overrideLimitsMax)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
		if problem := policy.NameProblem(name); problem != "" {
			return r, shard.Invalidf("limits", "has a name that %s", problem)
		}
		if l := m.Limits[name]; l == nil || l.Quota == nil && l.Refill == nil && l.Rate == nil {
			return r, shard.Invalidf("limits."+name, "changes nothing: quota, refill or rate")
		}
	}
	r.Op = shard.PutOverride
	r.Adjustment.Override = &policy.Override{Tier: m.Tier}
	if len(m.Limits) > 0 {
		r.Adjustment.Override.Limits = tierLimitsFrom(m.Limits)
	}
	if m.ExpiresAt != nil {
		r.Adjustment.Override.Expires, err = instantOf("expires_at", m.ExpiresAt)
	}
	return r, err
}

func deleteOverrideRequest(m *stintv1.DeleteOverrideRequest, actor string) (shard.Request, error) {
	r, err := adjustFields{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	r.Op = shard.DeleteOverride
	return r, err
}

// tierLimitsFrom reads the changes of an override, by the name of the limit.
func tierLimitsFrom(messages map[string]*stintv1.TierLimit) map[string]policy.TierLimit {
	limits := make(map[string]policy.TierLimit, len(messages))
	for name, m := range messages {
		limits[name] = policy.TierLimit{Quota: m.Quota, Refill: m.Refill, Rate: m.Rate}
	}
	return limits
}
