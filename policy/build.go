package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/stint-io/stint/limit"
)

// spanMax is the longest duration that a file can express.
const spanMax = limit.Span(math.MaxInt64 / int64(time.Microsecond))

// Build makes a Set of policies that were not read from a file. It applies the checks of Parse, so Format can write an
// accepted Set and Parse can read it back. The error is a *ParseError of the file "policies", whose problems have paths
// but no lines. The policies must not be changed afterwards.
func Build(policies []*Policy) (*Set, error) {
	var problems []Problem
	seen := map[string]bool{}
	for _, p := range policies {
		if seen[p.Name] {
			problems = append(problems, Problem{Path: shown(p.Name), Message: "is there twice"})
		}
		seen[p.Name] = true
		problems = append(problems, p.unreadable()...)
		problems = append(problems, p.problems()...)
	}
	problems = append(problems, parentProblems(policies)...)
	if len(problems) > 0 {
		return nil, &ParseError{File: "policies", Problems: problems}
	}
	set := NewSet(policies)
	if err := tooLarge(set); err != nil {
		return nil, err
	}
	return set, nil
}

// unreadable lists the values that a file cannot express. The decoder would have rejected them before the validation.
func (p *Policy) unreadable() []Problem {
	c := checker{policy: p, path: shown(p.Name)}
	if p.Retention <= 0 || p.Retention > spanMax {
		c.fail("idempotency_retention", "must be more than 0 and at most %v", duration(spanMax))
	}
	if p.OnExpire > OnExpireCommit {
		c.fail("on_expire", "%d is none", p.OnExpire)
	}
	if p.OnChange > Restart {
		c.fail("on_change", "%d is none", p.OnChange)
	}
	if p.Meter != nil && p.Meter.Cycle == nil {
		c.fail("meter.calendar", "is missing")
	}
	if p.UnknownKey > UnknownKeyDeny {
		c.fail("unknown_key", "%d is none", p.UnknownKey)
	}
	for i, l := range p.Limits {
		if l.Algorithm == 0 {
			c.fail(fmt.Sprintf("limits[%d]", i), "needs an algorithm")
		}
		if l.OnRecovery > RecoverKeep {
			c.fail(fmt.Sprintf("limits[%d].on_recovery", i), "%d is none", l.OnRecovery)
		}
		if l.OnExceeded > ExceededChallenge {
			c.fail(fmt.Sprintf("limits[%d].on_exceeded", i), "%d is none", l.OnExceeded)
		}
	}
	return c.found
}
