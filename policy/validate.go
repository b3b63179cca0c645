package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of one policy; that of its limits is in the tag of Policy.Limits. Limits and tiers resolve into their product
// at once.
const (
	nameBytesMax   = 64
	tiersMax       = 64
	reasonBytesMax = 512
)

// problems checks the values of a policy. The paths are those of the file.
func (p *Policy) problems() []Problem {
	c := checker{policy: p, path: shown(p.Name)}
	c.count("tiers", len(p.Tiers), tiersMax)
	if len(p.Tiers) > tiersMax {
		return c.found // the checks below take limits times tiers
	}
	c.limits()
	c.tiers()
	c.headers()
	c.retention()
	c.lockout()
	c.meter()
	c.thresholds()
	c.notify()
	c.denyCache()
	c.lease()
	return c.found
}

// checker collects the problems of one policy, gate or domain.
type checker struct {
	policy *Policy   // nil for a gate or a domain
	path   string    // begins the path of each problem
	found  []Problem // without positions: decoder.report adds them
}

// fail reports a problem. field is the rest of its path.
func (c *checker) fail(field, format string, args ...any) {
	c.found = append(c.found, Problem{Path: below(c.path, field), Message: fmt.Sprintf(format, args...)})
}

// NameProblem returns the problem of the name of a namespace, policy, limit, tier or unit, as text that follows the
// name of the field, or "" if there is none. In particular, "/" is not allowed, because denied_by has the form
// "policy/limit".
func NameProblem(name string) string {
	const letters, inner = "abcdefghijklmnopqrstuvwxyz0123456789", "_.-"
	switch {
	case name == "":
		return "is missing"
	case len(name) > nameBytesMax:
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(name), nameBytesMax)
	case strings.Trim(name, letters+inner) != "" || !strings.Contains(letters, name[:1]):
		return "is no name: a name is made of a-z, 0-9, _, . and -, and starts with a letter or a digit"
	}
	return ""
}

func (c *checker) count(field string, n, most int) {
	if n > most {
		c.fail(field, "has %d entries: at most %d are allowed", n, most)
	}
}

// retention bounds the life of idempotency records by the longest window of the policy: a longer life would only cost
// memory.
func (c *checker) retention() {
	if longest := max(c.policy.longestWindow(), DefaultRetention); c.policy.Retention > longest {
		c.fail("idempotency_retention", "is longer than the policy's longest window, %v", duration(longest))
	}
}

// denyCache refuses a cache if each denial must be counted or may lead to a block. (X12.)
func (c *checker) denyCache() {
	if p := c.policy; p.DenyCache != 0 {
		c.alone("deny_cache",
			rival{p.CountDenied, "count_denied", "a denial that is repeated is not counted"},
			rival{p.Lockout != nil, "lockout", "a denial that is repeated does not know the newest block"})
	}
}

// notify refuses a sink that is listed twice. Whether the sinks exist is not checked here: the file does not define
// them.
func (c *checker) notify() {
	for i, sink := range c.policy.Notify {
		if slices.Index(c.policy.Notify, sink) < i {
			c.fail(fmt.Sprintf("notify[%d]", i), "%s is there twice", shown(sink))
		}
	}
}

// rival is a field, and why it cannot be set beside another one.
type rival struct {
	isSet     bool
	name, why string
}

// alone refuses a field that is set beside a rival.
func (c *checker) alone(field string, rivals ...rival) {
	for _, r := range rivals {
		if r.isSet {
			c.fail(field, "cannot be with %s: %s", r.name, r.why)
		}
	}
}
