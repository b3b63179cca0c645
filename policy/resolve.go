package policy

import (
	"cmp"
	"maps"
	"slices"

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
	p.longest = p.longestWindow()
}

// RetentionMost returns the longest Retention that a revision of the policy with the same windows may have. The policy
// must be in a Set.
func (p *Policy) RetentionMost() limit.Span { return max(p.longest, DefaultRetention) }

// ResolveFor returns the limits of a key that may have an override, in the order of the file. The tier is the
// request's, else the override's, else the default. The override's numbers replace that tier's. It returns false for a
// tier of the request that the policy does not have. With a nil override it is Resolve, and does not allocate. The
// caller must check whether the override has expired.
//
// An override outlives changes of its policy, and must not prevent decisions on its key. So a missing tier is replaced
// by the default tier, and numbers that no longer fit their limit are ignored. The limits of an unlimited tier stay
// unlimited.
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
	tier, limits = cmp.Or(tier, p.DefaultTier), slices.Clone(limits)
	for i, own := range p.Limits {
		changed, overridden := o.Limits[own.Name]
		if !overridden || !changed.fits(own.Algorithm) {
			continue
		}
		// Start from the policy's own limit, so that a bucket that starts full there starts full here.
		l := p.Tiers[tier].Limits[own.Name].with(changed).resolve(own.Limit)
		if l.Validate() == nil {
			limits[i].Limit = l
		}
	}
	return limits, true
}

// OfTier is ResolveFor, except that a tier missing from the policy is replaced by the default tier.
func (p *Policy) OfTier(tier string, o *Override) []Limit {
	if _, known := p.byTier[tier]; !known {
		tier = ""
	}
	limits, _ := p.ResolveFor(tier, o)
	return limits
}

// SameNumbers reports whether a limit has the same numbers as in an earlier revision of the policy, under each tier of
// that revision.
func (p *Policy) SameNumbers(other *Policy, limit string) bool {
	i, j := p.indexOf(limit), other.indexOf(limit)
	if i < 0 || j < 0 || !p.Limits[i].Limit.Equal(&other.Limits[j].Limit) {
		return false
	}
	for tier, others := range other.byTier {
		if limits, ok := p.byTier[tier]; !ok || !limits[i].Limit.Equal(&others[j].Limit) {
			return false
		}
	}
	return true
}

// Gives reports whether one of the policy's tiers gives the limit called name these numbers, with or without the
// override. It distinguishes the numbers of this revision from those of an earlier one.
func (p *Policy) Gives(name string, numbers *limit.Limit, o *Override) bool {
	i := p.indexOf(name)
	if i < 0 {
		return false
	}
	for tier, limits := range p.byTier {
		if limits[i].Limit.Equal(numbers) {
			return true
		}
		if own, _ := p.ResolveFor(tier, o); own[i].Limit.Equal(numbers) {
			return true
		}
	}
	return false
}

// TierOf returns a tier with numbers that, with the override, are those of a key in all limits; has reports whether the
// key has such numbers in one limit. The default tier, "", comes before the others. It is the answer if there is none,
// too.
func (p *Policy) TierOf(has func(limit string, numbers *limit.Limit) bool, o *Override) string {
	for _, tier := range slices.Sorted(maps.Keys(p.byTier)) { // the default tier comes first
		limits, _ := p.ResolveFor(tier, o)
		if !slices.ContainsFunc(limits, func(l Limit) bool { return !has(l.Name, &l.Limit) }) {
			return tier
		}
	}
	return ""
}
