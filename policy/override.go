package policy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
)

// Override is the settings of one key.
type Override struct {
	Tier    string               // replaces the default tier; "" does not. The request's tier takes precedence
	Limits  map[string]TierLimit // replace the tier's numbers, by limit name
	Expires limit.Time           // when the override ends; 0 means never
}

// OverrideProblem returns the first problem of an override of this policy and its field, such as "limits.daily.refill",
// or two empty strings. It checks the numbers that result on the override's tier, or else on the default tier. It does
// not check Expires.
func (p *Policy) OverrideProblem(o *Override) (field, problem string) {
	if _, known := p.byTier[o.Tier]; !known {
		return "tier", "the policy has no tier " + shown(o.Tier) + didYouMean(p.NearestTier(o.Tier))
	}
	tier, c := cmp.Or(o.Tier, p.DefaultTier), checker{policy: p}
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		c.tierLimit("limits."+shown(name), name, p.Tiers[tier].Limits[name].with(o.Limits[name]))
		if len(c.found) > 0 {
			return c.found[0].Path, c.found[0].Message
		}
	}
	return "", ""
}
