package policy

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// A fixed window admits twice its quota around its edge. That is harmless for 1000 an hour and a way around a tight
// limit, so such windows are worth a word when they guard something (SEEDS, row 27).
const (
	securityQuotaLeast  = 20
	securityPeriodLimit = limit.Span(3600 * 1_000_000)
)

// Warnings lists what is allowed and yet probably not meant, for people. The policy must be in a Set.
func (p *Policy) Warnings() []string {
	if !p.Security {
		return nil
	}
	var warnings []string
	for i, l := range p.Limits {
		if l.Algorithm != limit.FixedWindow && l.Algorithm != limit.FixedWindowFirstHit {
			continue
		}
		if quota := p.lowestQuota(i); quota < securityQuotaLeast || l.Period > securityPeriodLimit {
			warnings = append(warnings, fmt.Sprintf("%s.limits[%d]: %s is a fixed window of %d per %v and guards a security "+
				"policy: twice as much passes around its edge; use sliding_log or sliding_window", p.Name, i, l.Name, quota,
				duration(l.Period)))
		}
	}
	return warnings
}

// lowestQuota is the least that a limit has in any tier.
func (p *Policy) lowestQuota(i int) uint64 {
	lowest := p.Limits[i].Quota
	for _, limits := range p.byTier {
		lowest = min(lowest, limits[i].Quota)
	}
	return lowest
}
