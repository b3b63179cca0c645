package check

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// resolve fills in the numbers of the tier (the request's, else the override's, else the default), and over them those
// of the override, as far as they make a limit.
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
			changed := filled(filled(own, numbers), over)
			if changed.Validate() == nil {
				l.Limit = changed
			}
		}
	}
	return limits
}

// knows reports whether an algorithm has the numbers that are given.
func knows(a limit.Algorithm, t policy.TierLimit) bool {
	return (t.Quota == nil || a != limit.Unlimited) && (t.Refill == nil || a == limit.TokenBucket) &&
		(t.Rate == nil || a == limit.GCRA)
}

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
	if full {
		l.Initial = l.Quota
	}
	return l
}
