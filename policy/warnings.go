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
		if quota := p.lowestQuota(i); startsAgain(l.Limit) && (quota < securityQuotaLeast || window(l.Limit) > securityPeriodLimit) {
			warnings = append(warnings, fmt.Sprintf("%s.limits[%d]: %s is a %s of %d per %s and guards a security "+
				"policy: twice as much passes around its edge; use sliding_log or sliding_window", p.Name, i, l.Name,
				startingAgain[l.Algorithm], quota, periodText(l.Limit)))
		}
	}
	if p.Lockout != nil && p.OnExpire != OnExpireCommit {
		warnings = append(warnings, fmt.Sprintf("%s.on_expire: an attempt whose hold expires is given back and is no "+
			"violation: whoever lets attempts vanish gets around the lockout of a security policy; use on_expire: commit", p.Name))
	}
	return warnings
}

// startingAgain are the algorithms whose windows all begin from nothing, as people call them.
var startingAgain = map[limit.Algorithm]string{
	limit.FixedWindow:         "fixed window",
	limit.FixedWindowFirstHit: "fixed window",
	limit.Calendar:            "calendar quota",
}

func startsAgain(l limit.Limit) bool { return startingAgain[l.Algorithm] != "" }

// periodText is the length of a window for people to read.
func periodText(l limit.Limit) string {
	switch {
	case l.Algorithm != limit.Calendar:
		return duration(l.Period).String()
	case l.Cycle.Every == 1:
		return unitWords[l.Cycle.Unit]
	}
	return fmt.Sprintf("%d %ss", l.Cycle.Every, unitWords[l.Cycle.Unit])
}

// lowestQuota is the least that a limit has in any tier.
func (p *Policy) lowestQuota(i int) uint64 {
	lowest := p.Limits[i].Quota
	for _, limits := range p.byTier {
		lowest = min(lowest, limits[i].Quota)
	}
	return lowest
}
