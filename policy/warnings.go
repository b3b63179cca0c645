package policy

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// A fixed window admits twice its quota around its edge. That is harmless for 1000 an hour, but it defeats a tight
// limit, so such windows cause a warning in a security policy.
const (
	securityQuotaLeast  = 20
	securityPeriodLimit = limit.Span(3600 * 1_000_000)
)

// Warnings lists, for display, settings that are valid but probably unintended. The policy must be in a Set.
func (p *Policy) Warnings() []string {
	if !p.Security {
		return nil
	}
	var warnings []string
	for i, l := range p.Limits {
		quota := p.lowestQuota(i)
		again := startingAgain[l.Algorithm]
		if again != "" && (quota < securityQuotaLeast || window(l.Limit) > securityPeriodLimit) {
			warnings = append(warnings, fmt.Sprintf("%s.limits[%s]: is a %s of %d per %s in a security "+
				"policy: twice as much passes around its edge; use sliding_log or sliding_window", p.Name, l.Name,
				again, quota, periodText(l.Limit)))
		}
	}
	if p.Lockout != nil && p.OnExpire != OnExpireCommit {
		warnings = append(warnings,
			fmt.Sprintf("%s.on_expire: an attempt whose hold expires is given back and is no violation: an attacker "+
				"who lets attempts vanish gets around the lockout of a security policy; use on_expire: commit", p.Name))
	}
	return warnings
}

// Mistake returns the first problem of policies that are about to be activated, with its path, such as
// "policies.plan.headers", or two empty strings. It is not part of Parse: a policy that an older release has accepted
// stays active and can still be read.
func (s *Set) Mistake() (path, problem string) {
	for _, name := range s.names {
		if problem := s.byName[name].quotaMistake(); problem != "" {
			return "policies." + name + ".headers", problem
		}
	}
	return "", ""
}

// startingAgain are the display names of the algorithms with windows that all start from zero.
var startingAgain = map[limit.Algorithm]string{
	limit.FixedWindow:         "fixed window",
	limit.FixedWindowFirstHit: "fixed window",
	limit.Calendar:            "calendar quota",
}

// periodText returns the length of a window for display.
func periodText(l limit.Limit) string {
	switch {
	case l.Algorithm != limit.Calendar:
		return duration(l.Period).String()
	case l.Cycle.Every == 1:
		return unitWords[l.Cycle.Unit]
	}
	return fmt.Sprintf("%d %ss", l.Cycle.Every, unitWords[l.Cycle.Unit])
}

// lowestQuota returns the lowest quota of a limit in any tier.
func (p *Policy) lowestQuota(i int) uint64 {
	lowest := p.Limits[i].Quota
	for _, limits := range p.byTier {
		lowest = min(lowest, limits[i].Quota)
	}
	return lowest
}
