package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/stint-io/stint/limit"
)

// spanMax is the longest duration that a file can say.
const spanMax = limit.Span(math.MaxInt64 / int64(time.Microsecond))

// Build makes a Set of policies that were not read from a file, with the checks of Parse: what it accepts, Format
// writes and Parse reads. The error is a *ParseError of the file "policies", whose problems have paths and no lines. The policies
// must not be changed afterwards.
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
	if size := len(Format(set)); size > fileBytesMax {
		return nil, &ParseError{File: "policies", Problems: []Problem{{Message: fmt.Sprintf(
			"they have %d bytes as a file: at most %d are read", size, fileBytesMax)}}}
	}
	return set, nil
}

// unreadable lists what a file cannot say, and what the decoder therefore keeps from the validation.
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
	for i, l := range p.Limits {
		if l.Algorithm == 0 {
			c.fail(fmt.Sprintf("limits[%d]", i), "needs an algorithm")
		}
	}
	return c.found
}
