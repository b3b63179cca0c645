package api

import (
	"strconv"
	"strings"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// headersOf returns the headers that an HTTP server may copy into its response: Retry-After for every denial that ends,
// and the styles of the policies; nil if there are none. Limits that never deny are left out, because a client cannot
// act on them.
func headersOf(policies *policy.Set, r *shard.Request, d *shard.Decision) map[string]string {
	var shown styled
	for i := range d.Limits {
		s := &d.Limits[i]
		shown.add(decisions.PolicyOf(policies, r, s), s)
	}
	waits := !d.Allowed && d.RetryAfter != limit.Never
	if !shown.any && !waits {
		return nil
	}
	headers := make(map[string]string, 8)
	if waits {
		headers["Retry-After"] = strconv.FormatInt(max(1, seconds(d.RetryAfter)), 10)
	}
	if !shown.any {
		return headers
	}
	addIETF(headers, policies, r, d, shown.ietf)
	addXRateLimit(headers, d, shown.xRateLimit)
	addXQuota(headers, d, shown.xQuota)
	return headers
}

// styled lists the limits to show in each style.
type styled struct {
	any        bool // some policy has a style, even if none of its limits is shown
	ietf       []*shard.LimitStatus
	xRateLimit []xRateLimit
	xQuota     *shard.LimitStatus // the first policy's: the headers show one limit
}

// xRateLimit is a limit to show as X-RateLimit-*, in the form configured in its policy.
type xRateLimit struct {
	*shard.LimitStatus
	style string
}

// add adds a limit to the styles of its policy. p is nil for a limit without a policy.
func (v *styled) add(p *policy.Policy, s *shard.LimitStatus) {
	if p == nil || len(p.Headers) == 0 {
		return
	}
	v.any = true
	if s.Shadow || s.Unlimited {
		return
	}
	for _, style := range p.Headers {
		switch style {
		case policy.StyleIETF:
			v.ietf = append(v.ietf, s)
		case policy.StyleXRateLimit, policy.StyleXRateLimitDelta, policy.StyleXRateLimitUsed:
			v.xRateLimit = append(v.xRateLimit, xRateLimit{s, style})
		default:
			if name, quota := policy.QuotaStyle(style); quota && name == s.Limit && v.xQuota == nil {
				v.xQuota = s
			}
		}
	}
}

// addIETF writes the headers of draft-ietf-httpapi-ratelimit-headers (revisions 10 and 11), which may still change:
// RateLimit-Policy lists the quota and window, RateLimit the remaining units and the seconds until there are more. No
// other function knows the draft.
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
		l, _ := ruleShown(policies, r, d, s)
		rules.WriteString(`"` + name + `"` + parameter("q", s.Quota) + quotaUnit(&l))
		if window := windowOf(&l, s); window > 0 {
			rules.WriteString(parameter("w", uint64(seconds(window))))
		}
		states.WriteString(`"` + name + `"` + parameter("r", s.Left()))
		if wait, ok := untilNext(d, &l, s); ok {
			states.WriteString(parameter("t", uint64(seconds(wait))))
		}
	}
	headers["RateLimit-Policy"], headers["RateLimit"] = rules.String(), states.String()
}

// parameter writes an integer parameter of RFC 9651, which has at most 15 digits.
func parameter(name string, value uint64) string {
	const integerMax = 999_999_999_999_999
	return ";" + name + "=" + strconv.FormatUint(min(value, integerMax), 10)
}

// quotaUnit returns the parameter with a quota's unit, if the draft has a word for it and its default, requests, would
// be wrong; otherwise "".
func quotaUnit(l *policy.Limit) string {
	switch {
	case l.Algorithm == limit.Concurrency && (l.Unit == "" || l.Unit == "requests"):
		return `;qu="concurrent-requests"`
	case l.Unit == "bytes":
		return `;qu="content-bytes"`
	}
	return ""
}

// addXRateLimit shows one limit: the one that keeps the caller waiting longest, else the one with least left.
func addXRateLimit(headers map[string]string, d *shard.Decision, limits []xRateLimit) {
	if len(limits) == 0 {
		return
	}
	tightest := limits[0]
	for _, s := range limits[1:] {
		if tighter(d, s.LimitStatus, tightest.LimitStatus) {
			tightest = s
		}
	}
	headers["X-RateLimit-Limit"] = strconv.FormatUint(tightest.Quota, 10)
	headers["X-RateLimit-Remaining"] = strconv.FormatUint(tightest.Left(), 10)
	wait, ok := untilMore(d, tightest.LimitStatus)
	switch {
	case ok && tightest.style == policy.StyleXRateLimitDelta:
		headers["X-RateLimit-Reset"] = strconv.FormatInt(seconds(wait), 10)
	case ok:
		headers["X-RateLimit-Reset"] = unixSeconds(d, wait)
	}
	if tightest.style == policy.StyleXRateLimitUsed {
		headers["X-RateLimit-Used"] = strconv.FormatUint(tightest.Used, 10)
		headers["X-RateLimit-Resource"] = tightest.Policy
	}
}

// addXQuota shows one limit, which may be nil.
func addXQuota(headers map[string]string, d *shard.Decision, s *shard.LimitStatus) {
	if s == nil {
		return
	}
	headers["X-Quota-Used"] = strconv.FormatUint(s.Used, 10)
	headers["X-Quota-Limit"] = strconv.FormatUint(s.Quota, 10)
	if wait, ok := untilMore(d, s); ok {
		headers["X-Quota-Reset"] = unixSeconds(d, wait)
	}
}

// unixSeconds returns the instant after a wait, in Unix seconds, rounded up.
func unixSeconds(d *shard.Decision, wait limit.Span) string {
	return strconv.FormatInt(seconds(limit.Span(answeredAt(d))+wait), 10)
}
