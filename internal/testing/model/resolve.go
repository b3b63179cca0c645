package model

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// resolve fills in the numbers of the tier (the request's, else the override's, else the default). The numbers of the
// override replace them, as far as they make a valid limit.
func resolve(p *policy.Policy, tier string, o *policy.Override) []policy.Limit {
	if o == nil {
		o = &policy.Override{}
	}
	if _, known := p.Tiers[o.Tier]; tier == "" && known {
		tier = o.Tier
	}
	if tier == "" {
		tier = p.DefaultTier
	}
	limits := slices.Clone(p.Limits)
	for i := range limits {
		l, own := &limits[i], p.Limits[i].Limit
		numbers := p.Tiers[tier].Limits[l.Name]
		l.Unlimited = p.Tiers[tier].Unlimited
		if !l.Unlimited {
			l.Limit = filled(own, numbers)
		}
		if over, ok := o.Limits[l.Name]; ok && knows(own.Algorithm, over) {
			changed := filled(own, merged(numbers, over))
			if changed.Validate() == nil {
				l.Limit = changed
			}
		}
	}
	return limits
}

// merged combines the numbers of a tier and an override, which has priority: only the combination tells whether a
// bucket starts full.
func merged(t, over policy.TierLimit) policy.TierLimit {
	return policy.TierLimit{Quota: cmp.Or(over.Quota, t.Quota), Refill: cmp.Or(over.Refill, t.Refill),
		Rate: cmp.Or(over.Rate, t.Rate)}
}

// knows reports whether an algorithm uses all the given numbers.
func knows(a limit.Algorithm, t policy.TierLimit) bool {
	return (t.Quota == nil || a != limit.Unlimited) && (t.Refill == nil || a == limit.TokenBucket) &&
		(t.Rate == nil || a == limit.GCRA)
}

// filled replaces the numbers of a limit. A bucket that begins full also does with another quota.
func filled(l limit.Limit, t policy.TierLimit) limit.Limit {
	full := l.Algorithm == limit.TokenBucket && l.Initial == l.Quota
	if t.Quota != nil {
		l.Quota = *t.Quota
	}
	if t.Refill != nil {
		l.Count = *t.Refill
	}
	if t.Rate != nil {
		l.Count = *t.Rate
	}
	if full || l.Quota == 0 {
		l.Initial = l.Quota
	}
	return l
}
