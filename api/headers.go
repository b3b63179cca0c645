package api

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// headersOf is what an HTTP server may copy into its response, in the styles that the policies ask for; nil when none
// asks. Limits that never deny are not shown: nobody can act on them.
func headersOf(policies *policy.Set, r *shard.Request, d *shard.Decision) map[string]string {
	var shown styled
	for i := range d.Limits {
		shown.add(policies, &d.Limits[i])
	}
	if !shown.any {
		return nil
	}
	headers := make(map[string]string, 8)
	if wait := d.RetryAfter; !d.Allowed && wait != limit.Never {
		headers["Retry-After"] = strconv.FormatInt(max(1, seconds(wait)), 10)
	}
	addIETF(headers, policies, r, d, shown.ietf)
	addXRateLimit(headers, d, shown.xRateLimit)
	addXQuota(headers, d, shown.xQuota)
	return headers
}

// styled is the limits to be shown in each style.
type styled struct {
	any                      bool
	ietf, xRateLimit, xQuota []*shard.LimitStatus
}

func (v *styled) add(policies *policy.Set, s *shard.LimitStatus) {
	p, ok := policies.Lookup(s.Policy)
	if !ok || len(p.Headers) == 0 {
		return
	}
	v.any = true
	if s.Shadow || s.Unlimited {
		return
	}
	for _, style := range p.Headers {
		switch style {
		case "ietf":
			v.ietf = append(v.ietf, s)
		case "x-ratelimit":
			v.xRateLimit = append(v.xRateLimit, s)
		case "x-quota":
			v.xQuota = append(v.xQuota, s)
		}
	}
}

// addIETF is the one place that knows draft-ietf-httpapi-ratelimit-headers-10, which may still change: RateLimit-Policy
// lists quota and window, RateLimit what remains and the seconds until there is more.
func addIETF(headers map[string]string, policies *policy.Set, r *shard.Request, d *shard.Decision,
	limits []*shard.LimitStatus) {
	if len(limits) == 0 {
		return
	}
	var rules, states strings.Builder
	for i, s := range limits {
		if i > 0 {
			rules.WriteString(", ")
			states.WriteString(", ")
		}
		name := s.Limit
		if len(r.Entries) > 1 {
			name = s.Policy + "/" + s.Limit
		}
		rules.WriteString(`"` + name + `"` + parameter("q", s.Quota))
		if window := windowOf(policies, r, s); window > 0 {
			rules.WriteString(parameter("w", uint64(seconds(window))))
		}
		states.WriteString(`"` + name + `"` + parameter("r", s.Remaining))
		if wait, ok := untilMore(d, s); ok {
			states.WriteString(parameter("t", uint64(seconds(wait))))
		}
	}
	headers["RateLimit-Policy"], headers["RateLimit"] = rules.String(), states.String()
}

// parameter writes an integer of RFC 9651, which has at most 15 digits.
func parameter(name string, value uint64) string {
	const integerMax = 999_999_999_999_999
	return ";" + name + "=" + strconv.FormatUint(min(value, integerMax), 10)
}

// addXRateLimit shows one limit: the one that keeps the caller waiting longest, else the one with least left.
func addXRateLimit(headers map[string]string, d *shard.Decision, limits []*shard.LimitStatus) {
	if len(limits) == 0 {
		return
	}
	tightest := limits[0]
	for _, s := range limits[1:] {
		if tighter(s, tightest) {
			tightest = s
		}
	}
	headers["X-RateLimit-Limit"] = strconv.FormatUint(tightest.Quota, 10)
	headers["X-RateLimit-Remaining"] = strconv.FormatUint(tightest.Remaining, 10)
	if wait, ok := untilMore(d, tightest); ok {
		headers["X-RateLimit-Reset"] = unixSeconds(d, wait)
	}
}

func tighter(a, b *shard.LimitStatus) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed && b.RetryAfter == limit.Never:
		return false
	case !a.Allowed:
		return a.RetryAfter == limit.Never || a.RetryAfter > b.RetryAfter
	}
	return a.Remaining < b.Remaining
}

// addXQuota shows the limit named "daily".
func addXQuota(headers map[string]string, d *shard.Decision, limits []*shard.LimitStatus) {
	for _, s := range limits {
		if s.Limit != "daily" {
			continue
		}
		headers["X-Quota-Used"] = strconv.FormatUint(s.Used, 10)
		headers["X-Quota-Limit"] = strconv.FormatUint(s.Quota, 10)
		if wait, ok := untilMore(d, s); ok {
			headers["X-Quota-Reset"] = unixSeconds(d, wait)
		}
		return
	}
}

// untilMore is the wait until a limit that denied lets the request through, or until another is back at rest; false
// when that is never.
func untilMore(d *shard.Decision, s *shard.LimitStatus) (limit.Span, bool) {
	switch {
	case !s.Allowed:
		return s.RetryAfter, s.RetryAfter != limit.Never
	case s.ResetAt == 0:
		return 0, false
	}
	return max(0, limit.Span(s.ResetAt-d.DecidedAt)), true
}

func unixSeconds(d *shard.Decision, wait limit.Span) string {
	return strconv.FormatInt(seconds(limit.Span(d.DecidedAt)+wait), 10)
}

// windowOf is the span in which a limit's whole quota comes back; 0 when it never does, or when the policy is gone.
func windowOf(policies *policy.Set, r *shard.Request, s *shard.LimitStatus) limit.Span {
	p, _ := policies.Lookup(s.Policy)
	limits, _ := p.Resolve(tierOf(r, s))
	for _, l := range limits {
		if l.Name != s.Limit {
			continue
		}
		if l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA {
			return refillTime(l.Limit)
		}
		return l.Period
	}
	return 0
}

func tierOf(r *shard.Request, s *shard.LimitStatus) string {
	for i := range r.Entries {
		if e := &r.Entries[i]; e.Key == s.Key && e.Policy == s.Policy {
			return e.Tier
		}
	}
	return ""
}

// refillTime is ceil(quota x period / count), in 128 bits; 0 when it does not fit a Span.
func refillTime(l limit.Limit) limit.Span {
	high, low := bits.Mul64(l.Quota, uint64(l.Period))
	if high >= l.Count {
		return 0
	}
	span, rest := bits.Div64(high, low, l.Count)
	if rest > 0 {
		span++
	}
	if span > uint64(spanMax) {
		return 0
	}
	return limit.Span(span)
}
