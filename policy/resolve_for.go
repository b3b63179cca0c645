package policy

import (
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
)

// ResolveFor returns the limits of a key that has an override, in the order of the file. The tier is the request's, else
// the override's, else the default; the override's numbers replace that tier's. It reports false for a tier of the
// request that the policy does not have. With a nil override it is Resolve, and does not allocate. Whether the override
// has expired is the caller's to know.
//
// An override outlives changes of its policy, and must not stop its key from being decided: a tier that is gone is the
// default tier, and numbers that do not fit their limit any more leave it as its tier has it. The limits of an unlimited
// tier stay unlimited.
func (p *Policy) ResolveFor(tier string, o *Override) ([]Limit, bool) {
	if o == nil {
		return p.Resolve(tier)
	}
	if _, known := p.byTier[o.Tier]; tier == "" && known {
		tier = o.Tier
	}
	limits, ok := p.byTier[tier]
	if !ok || len(o.Limits) == 0 {
		return limits, ok
	}
	if tier == "" {
		tier = p.DefaultTier
	}
	limits = slices.Clone(limits)
	for i, own := range p.Limits {
		changed, overridden := o.Limits[own.Name]
		if !overridden || !changed.fits(own.Algorithm) {
			continue
		}
		// Begun from the policy's own limit, so that a bucket that starts full there starts full here.
		l := p.Tiers[tier].Limits[own.Name].with(changed).resolve(own.Limit)
		if l.Validate() == nil {
			limits[i].Limit = l
		}
	}
	return limits, true
}

// OverrideProblem says what is wrong with an override of this policy, and in which field of it, as in
// "limits.daily.refill"; two empty texts: nothing. Numbers are judged as they come out on the override's tier, or on the
// default tier. It says nothing about Expires.
func (p *Policy) OverrideProblem(o *Override) (field, problem string) {
	if _, known := p.byTier[o.Tier]; !known {
		return "tier", "the policy has no tier " + shown(o.Tier)
	}
	tier := o.Tier
	if tier == "" {
		tier = p.DefaultTier
	}
	c := checker{policy: p}
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		c.tierLimit("limits."+shown(name), name, p.Tiers[tier].Limits[name].with(o.Limits[name]))
		if len(c.found) > 0 {
			return c.found[0].Path, c.found[0].Message
		}
	}
	return "", ""
}

// with is t with what changed says instead.
func (t TierLimit) with(changed TierLimit) TierLimit {
	if changed.Quota != nil {
		t.Quota = changed.Quota
	}
	if changed.Refill != nil {
		t.Refill = changed.Refill
	}
	if changed.Rate != nil {
		t.Rate = changed.Rate
	}
	return t
}

// fits reports whether an algorithm has the numbers that are given.
func (t TierLimit) fits(a limit.Algorithm) bool {
	return (t.Quota == nil || a != limit.Unlimited) && (t.Refill == nil || a == limit.TokenBucket) &&
		(t.Rate == nil || a == limit.GCRA)
}
