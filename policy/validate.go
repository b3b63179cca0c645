package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
)

// Bounds of one policy. A policy of limitsMax limits and tiersMax tiers resolves into their product of rules at once.
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

// checker collects the problems of one policy.
type checker struct {
	policy *Policy
	path   string
	found  []Problem
}

func (c *checker) fail(field, format string, args ...any) {
	path := c.path
	if path != "" && field != "" {
		path += "."
	}
	path += field
	c.found = append(c.found, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
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

func (c *checker) limits() {
	first := map[string]int{}
	for i, l := range c.policy.Limits {
		field := fmt.Sprintf("limits[%d]", i)
		if l.Name == "unlimited" {
			c.fail(field+".name", `"unlimited" is a word of tiers: choose another name`)
		}
		if other, twice := first[l.Name]; twice {
			c.fail(field+".name", "limits[%d] is named %s too", other, shown(l.Name))
		} else {
			first[l.Name] = i
		}
		c.numbers(field, l.Limit, limitField)
	}
}

// numbers reports an invalid limit. fieldOf returns the path of one of the limit's fields below the field of the file.
// A limit without an algorithm has already been reported by the decoder or by unreadable.
func (c *checker) numbers(field string, l limit.Limit, fieldOf func(limit.Algorithm, string) string) {
	if l.Algorithm == 0 {
		return
	}
	var wrong *limit.FieldError
	if !errors.As(l.Validate(), &wrong) {
		return
	}
	if inner := fieldOf(l.Algorithm, wrong.Field); inner != "" {
		c.fail(field+inner, "%s", wrong.Message)
	} else {
		c.fail(field, "%v", wrong)
	}
}

func limitField(a limit.Algorithm, name string) string {
	if name == "quota" {
		return ".quota"
	}
	return "." + algorithmField(a) + "." + name
}

func tierField(_ limit.Algorithm, name string) string {
	if name == "quota" || name == "refill" || name == "rate" {
		return "." + name
	}
	return "" // the tier's numbers contradict the numbers that it did not change
}

func (c *checker) tiers() {
	p := c.policy
	for _, name := range slices.Sorted(maps.Keys(p.Tiers)) {
		field := "tiers." + shown(name)
		if problem := NameProblem(name); problem != "" {
			c.fail(field, "%s", problem)
		}
		tier := p.Tiers[name]
		if tier.Unlimited && len(tier.Limits) > 0 {
			c.fail(field, "is unlimited: it cannot change limits as well")
			continue
		}
		for _, limitName := range slices.Sorted(maps.Keys(tier.Limits)) {
			c.tierLimit(field+"."+shown(limitName), limitName, tier.Limits[limitName])
		}
	}
	if _, known := p.Tiers[p.DefaultTier]; p.DefaultTier != "" && !known {
		c.fail("default_tier", "there is no tier %s%s", shown(p.DefaultTier), didYouMean(p.NearestTier(p.DefaultTier)))
	}
}

func (c *checker) tierLimit(field, name string, changed TierLimit) {
	i := c.policy.indexOf(name)
	if i < 0 {
		var names []string
		for _, l := range c.policy.Limits {
			names = append(names, l.Name)
		}
		c.fail(field, "the policy has no limit %s%s", shown(name), didYouMean(nearest(name, names)))
		return
	}
	l := c.policy.Limits[i].Limit
	fits := c.algorithmHas(field+".quota", changed.Quota, l.Algorithm != limit.Unlimited)
	fits = c.algorithmHas(field+".refill", changed.Refill, l.Algorithm == limit.TokenBucket) && fits
	fits = c.algorithmHas(field+".rate", changed.Rate, l.Algorithm == limit.GCRA) && fits
	if fits && l.Validate() == nil {
		c.numbers(field, changed.resolve(l), tierField)
	}
}

func (c *checker) algorithmHas(field string, number *uint64, has bool) bool {
	if number != nil && !has {
		c.fail(field, "the limit's algorithm has no such number")
		return false
	}
	return true
}

// retention bounds the life of idempotency records by the longest window of the policy: a longer life would only cost
// memory.
func (c *checker) retention() {
	longest := DefaultRetention
	for _, tier := range append(slices.Collect(maps.Values(c.policy.Tiers)), Tier{}) {
		for _, l := range tier.resolve(c.policy.Limits) {
			longest = max(longest, window(l.Limit))
		}
	}
	if c.policy.Retention > longest {
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
