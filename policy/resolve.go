package policy

import (
	"cmp"

	"github.com/stint-io/stint/limit"
)

// Resolve returns the limits of a tier, in the order of the file. "" means the default tier, or the policy's own
// numbers if it has no default. It returns false if the policy has no such tier. It does not allocate. The policy must
// be in a Set, and the caller must not change the slice.
func (p *Policy) Resolve(tier string) ([]Limit, bool) {
	if tier == "" {
		return p.byDefault, p.byTier != nil
	}
	limits, ok := p.byTier[tier]
	return limits, ok
}

// EveryTier returns the limits of every tier by its name, and of the default tier by "". The policy must be in a Set,
// and the caller must change nothing.
func (p *Policy) EveryTier() map[string][]Limit { return p.byTier }

func (p *Policy) resolveTiers() {
	p.byTier = make(map[string][]Limit, len(p.Tiers)+1)
	p.byTier[""] = p.Limits
	for name, tier := range p.Tiers {
		p.byTier[name] = tier.resolve(p.Limits)
	}
	if p.DefaultTier != "" {
		p.byTier[""] = p.byTier[p.DefaultTier]
	}
	p.byDefault = p.byTier[""]
}

func (t Tier) resolve(limits []Limit) []Limit {
	if !t.Unlimited && len(t.Limits) == 0 {
		return limits
	}
	resolved := make([]Limit, len(limits))
	for i, l := range limits {
		resolved[i] = l
		if t.Unlimited {
			resolved[i].Unlimited = true
		} else {
			resolved[i].Limit = t.Limits[l.Name].resolve(l.Limit)
		}
	}
	return resolved
}

// resolve applies a tier's numbers. A bucket that starts full in the policy starts full in every tier, and one without
// capacity starts empty.
func (t TierLimit) resolve(l limit.Limit) limit.Limit {
	startsFull := l.Algorithm == limit.TokenBucket && l.Initial == l.Quota
	if t.Quota != nil {
		l.Quota = *t.Quota
	}
	if count := cmp.Or(t.Rate, t.Refill); count != nil {
		l.Count = *count
	}
	if startsFull || l.Quota == 0 {
		l.Initial = l.Quota
	}
	return l
}
