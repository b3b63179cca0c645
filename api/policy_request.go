package api

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// PoliciesOf makes a set of messages, with the checks that a policies file gets. The error is a *shard.Error that names
// every field at fault, as in "policies.login.limits[0].quota".
func PoliciesOf(messages []*stintv1.Policy) (*policy.Set, error) {
	var r policyReader
	policies := make([]*policy.Policy, len(messages))
	for i, m := range messages {
		policies[i] = r.policy(i, m)
	}
	if r.unbuilt != nil {
		return nil, r.unbuilt
	}
	if len(r.problems) > 0 {
		return nil, policyError(r.problems)
	}
	set, err := policy.Build(policies)
	var wrong *policy.ParseError
	if errors.As(err, &wrong) {
		return nil, policyError(wrong.Problems)
	}
	return set, err
}

// problemsToldMax keeps an error within the size of a header, which gRPC sends it in.
const problemsToldMax = 20

func policyError(problems []policy.Problem) error {
	var told []string
	for _, p := range problems[:min(len(problems), problemsToldMax)] {
		path := "policies"
		if p.Path != "" {
			path += "." + p.Path
		}
		told = append(told, strings.Replace(path, ".[", "[", 1)+": "+p.Message)
	}
	if more := len(problems) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return &shard.Error{Code: shard.Invalid, Message: strings.Join(told, "; ")}
}

// policyReader turns messages into policies. It looks at what only a message can say wrong; policy.Build does the rest.
type policyReader struct {
	problems []policy.Problem
	unbuilt  error // the first field that this version does not have
}

func (r *policyReader) fail(path, format string, args ...any) {
	r.problems = append(r.problems, policy.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// refuse notes a field of the contract that is set and not built: to ignore it would enforce another policy.
func (r *policyReader) refuse(set bool, path string) {
	if set && r.unbuilt == nil {
		r.unbuilt = &shard.Error{Code: shard.NotBuilt, Field: "policies." + path, Message: "is not built yet; remove the field"}
	}
}

func (r *policyReader) policy(i int, m *stintv1.Policy) *policy.Policy {
	path := m.GetName()
	if policy.NameProblem(path) != "" {
		path = fmt.Sprintf("[%d]", i)
	}
	r.refuse(m.GetLockout() != nil, path+".lockout")
	r.refuse(m.GetCountDenied(), path+".count_denied")
	r.refuse(m.GetOnExpire() != stintv1.OnExpire_ON_EXPIRE_UNSPECIFIED, path+".on_expire")
	r.refuse(m.GetOnChange() > stintv1.OnChange_ON_CHANGE_AS_IS, path+".on_change")
	r.refuse(m.GetDenyCache() != nil, path+".deny_cache")
	p := &policy.Policy{Name: m.GetName(), DefaultTier: m.GetDefaultTier(), Security: m.GetSecurity(),
		Shadow: m.GetShadow(), Headers: slices.Clone(m.GetHeaders()), Reason: m.GetReason(),
		Retention: policy.DefaultRetention}
	if retention := m.GetIdempotencyRetention(); retention != nil {
		p.Retention = r.span(path+".idempotency_retention", retention)
	}
	for i, l := range m.GetLimits() {
		p.Limits = append(p.Limits, r.limit(fmt.Sprintf("%s.limits[%d]", path, i), l))
	}
	if len(m.GetTiers()) > 0 {
		p.Tiers = make(map[string]policy.Tier, len(m.Tiers))
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetTiers())) {
		p.Tiers[name] = tierFrom(m.Tiers[name])
	}
	return p
}

func tierFrom(m *stintv1.Tier) policy.Tier {
	t := policy.Tier{Unlimited: m.GetUnlimited(), Limits: make(map[string]policy.TierLimit, len(m.GetLimits()))}
	for name, l := range m.GetLimits() {
		if l != nil {
			t.Limits[name] = policy.TierLimit{Quota: l.Quota, Refill: l.Refill, Rate: l.Rate}
		} else {
			t.Limits[name] = policy.TierLimit{}
		}
	}
	return t
}

func (r *policyReader) limit(path string, m *stintv1.Limit) policy.Limit {
	l := policy.Limit{Name: m.GetName(), Unit: m.GetUnit(), Shadow: m.GetShadow()}
	l.Quota = m.GetQuota()
	switch a := m.GetAlgorithm().(type) {
	case *stintv1.Limit_FixedWindow:
		l.Algorithm = r.anchor(path+".fixed_window.anchor", a.FixedWindow.GetAnchor())
		l.Period = r.span(path+".fixed_window.period", a.FixedWindow.GetPeriod())
	case *stintv1.Limit_SlidingWindow:
		l.Algorithm = limit.SlidingWindow
		l.Period = r.span(path+".sliding_window.period", a.SlidingWindow.GetPeriod())
		if bucket := a.SlidingWindow.GetBucket(); bucket != nil {
			l.Algorithm, l.Bucket = limit.SlidingBuckets, r.span(path+".sliding_window.bucket", bucket)
		}
	case *stintv1.Limit_SlidingLog:
		l.Algorithm, l.Period = limit.SlidingLog, r.span(path+".sliding_log.period", a.SlidingLog.GetPeriod())
	case *stintv1.Limit_TokenBucket:
		l.Algorithm, l.Count, l.Initial = limit.TokenBucket, a.TokenBucket.GetRefill(), l.Quota
		l.Period = r.span(path+".token_bucket.per", a.TokenBucket.GetPer())
		if a.TokenBucket != nil && a.TokenBucket.Initial != nil {
			l.Initial = *a.TokenBucket.Initial
		}
	case *stintv1.Limit_Gcra:
		l.Algorithm, l.Count = limit.GCRA, a.Gcra.GetRate()
		l.Period = r.span(path+".gcra.per", a.Gcra.GetPer())
	case *stintv1.Limit_Lifetime:
		l.Algorithm = limit.Lifetime
	case *stintv1.Limit_Unlimited:
		l.Algorithm = limit.Unlimited
	default:
		r.otherAlgorithm(path, m)
	}
	return l
}

func (r *policyReader) otherAlgorithm(path string, m *stintv1.Limit) {
	switch m.GetAlgorithm().(type) {
	case *stintv1.Limit_Calendar:
		r.refuse(true, path+".calendar")
	case *stintv1.Limit_Concurrency:
		r.refuse(true, path+".concurrency")
	default:
		r.fail(path, "needs an algorithm")
	}
}

func (r *policyReader) anchor(path string, a stintv1.Anchor) limit.Algorithm {
	switch a {
	case stintv1.Anchor_ANCHOR_UNSPECIFIED, stintv1.Anchor_ANCHOR_EPOCH:
	case stintv1.Anchor_ANCHOR_FIRST_HIT:
		return limit.FixedWindowFirstHit
	default:
		r.fail(path, "%d is no anchor", a)
	}
	return limit.FixedWindow
}

// span reads a duration as a policies file could say it.
func (r *policyReader) span(path string, d *durationpb.Duration) limit.Span {
	length := d.AsDuration()
	switch {
	case d == nil:
		r.fail(path, "is missing")
	case d.CheckValid() != nil:
		r.fail(path, "is no duration: %s", plain(d.CheckValid()))
	case length == math.MaxInt64:
		r.fail(path, "is more than 292 years")
	case length <= 0:
		r.fail(path, "must be more than 0, not %v", length)
	case length%time.Microsecond != 0:
		r.fail(path, "must be whole microseconds, not %v", length)
	default:
		return limit.Span(length.Microseconds())
	}
	return 0
}
