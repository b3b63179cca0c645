package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/limit"
)

// Bounds of one policy. A policy of limitsMax limits and tiersMax tiers is resolved into that many rules at once.
const (
	nameBytesMax   = 64
	limitsMax      = 16
	tiersMax       = 64
	reasonBytesMax = 512
)

// headerStyles are the ways to tell a client about its limits.
var headerStyles = []string{"ietf", "x-ratelimit", "x-quota"}

// problems says what is wrong with the values of a policy. The paths are those of the file.
func (p *Policy) problems() []Problem {
	c := checker{policy: p, path: shown(p.Name)}
	c.name("", p.Name)
	c.count("limits", len(p.Limits), 1, limitsMax)
	c.count("tiers", len(p.Tiers), 0, tiersMax)
	if len(p.Limits) > limitsMax || len(p.Tiers) > tiersMax {
		return c.found // what follows takes limits times tiers
	}
	c.limits()
	c.tiers()
	c.headers()
	c.reason()
	c.retention()
	c.lockout()
	c.denyCache()
	return c.found
}

// LimitProblems says what is wrong with limits that stand in no policy, with paths as in "limits[0].quota". Each must have
// an algorithm. It may be called concurrently.
func LimitProblems(limits []Limit) []Problem {
	c := checker{policy: &Policy{Limits: limits}}
	c.count("limits", len(limits), 1, limitsMax)
	if len(limits) <= limitsMax {
		c.limits()
	}
	return c.found
}

// checker gathers the problems of one policy.
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

func (c *checker) name(field, name string) {
	if problem := NameProblem(name); problem != "" {
		c.fail(field, "%s", problem)
	}
}

// NameProblem says what is wrong with the name of a namespace, policy, limit, tier or unit, to be read behind the name
// of its field; "" nothing. A "/" in particular cannot stand in one: denied_by says "policy/limit".
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

func (c *checker) count(field string, n, least, most int) {
	if n < least {
		c.fail(field, "must not be empty")
	}
	if n > most {
		c.fail(field, "has %d entries: at most %d are allowed", n, most)
	}
}

func (c *checker) limits() {
	first := map[string]int{}
	for i, l := range c.policy.Limits {
		field := fmt.Sprintf("limits[%d]", i)
		c.name(field+".name", l.Name)
		if l.Name == "unlimited" {
			c.fail(field+".name", `"unlimited" is a word of tiers: choose another name`)
		}
		if other, twice := first[l.Name]; twice {
			c.fail(field+".name", "limits[%d] is named %s too", other, shown(l.Name))
		} else {
			first[l.Name] = i
		}
		if l.Unit != "" {
			c.name(field+".unit", l.Unit)
		}
		c.numbers(field, l.Limit, limitField)
	}
}

// numbers reports a limit that is impossible. fieldOf says where a field of it stands below the field of the file. A
// limit of no algorithm was reported where it was read.
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
	return "" // what the tier changed does not go with what it left
}

// algorithmField names the field of a limit that chooses an algorithm.
func algorithmField(a limit.Algorithm) string {
	return map[limit.Algorithm]string{
		limit.FixedWindow:         "fixed_window",
		limit.FixedWindowFirstHit: "fixed_window",
		limit.SlidingWindow:       "sliding_window",
		limit.SlidingBuckets:      "sliding_window",
		limit.SlidingLog:          "sliding_log",
		limit.TokenBucket:         "token_bucket",
		limit.GCRA:                "gcra",
		limit.Calendar:            "calendar",
		limit.Concurrency:         "concurrency",
		limit.Lifetime:            "lifetime",
		limit.Unlimited:           "unlimited",
	}[a]
}

func (c *checker) tiers() {
	p := c.policy
	for _, name := range slices.Sorted(maps.Keys(p.Tiers)) {
		field := "tiers." + shown(name)
		c.name(field, name)
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
		c.fail("default_tier", "there is no tier %s", shown(p.DefaultTier))
	}
}

func (c *checker) tierLimit(field, name string, changed TierLimit) {
	i := slices.IndexFunc(c.policy.Limits, func(l Limit) bool { return l.Name == name })
	if i < 0 {
		c.fail(field, "the policy has no limit %s", shown(name))
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

func (c *checker) headers() {
	for i, style := range c.policy.Headers {
		field := fmt.Sprintf("headers[%d]", i)
		if !slices.Contains(headerStyles, style) {
			c.fail(field, "%s is no header style: known are %s", shown(style), strings.Join(headerStyles, ", "))
		} else if slices.Index(c.policy.Headers, style) < i {
			c.fail(field, "%s is there twice", style)
		}
	}
}

// reason holds the text to what may stand in a header and in a log line.
func (c *checker) reason() {
	reason := c.policy.Reason
	if len(reason) > reasonBytesMax {
		c.fail("reason", "has %d bytes: at most %d are allowed", len(reason), reasonBytesMax)
	}
	if !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		c.fail("reason", "must be valid UTF-8 without control characters")
	}
}

// retention keeps idempotency records within the window that they protect: a longer one only costs memory.
func (c *checker) retention() {
	longest := DefaultRetention
	for _, l := range c.policy.Limits {
		longest = max(longest, window(l.Limit))
	}
	for _, tier := range c.policy.Tiers {
		for _, l := range tier.resolve(c.policy.Limits) {
			longest = max(longest, window(l.Limit))
		}
	}
	if c.policy.Retention > longest {
		c.fail("idempotency_retention", "is longer than the policy's longest window, %v", duration(longest))
	}
}

// denyCache keeps denials from being repeated where each of them is to be counted, or may lead to a block. (SEMANTICS X12.)
func (c *checker) denyCache() {
	p := c.policy
	if p.DenyCache == 0 {
		return
	}
	if p.DenyCache < 0 || p.DenyCache > DenyCacheMax {
		c.fail("deny_cache", "must be at least 1us and at most %s: a denial may be repeated that long after it was true",
			spanText(DenyCacheMax))
	}
	if p.CountDenied {
		c.fail("deny_cache", "cannot be with count_denied: a denial that is repeated is not counted")
	}
	if p.Lockout != nil {
		c.fail("deny_cache", "cannot be with lockout: a denial that is repeated does not know the newest block")
	}
}
