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

// PoliciesOf makes a set from messages, with the checks of a policies file. The error is a *shard.Error that names every
// wrong field, as in "policies.login.limits[0].quota".
func PoliciesOf(messages []*stintv1.Policy) (*policy.Set, error) {
	var r policyReader
	policies := make([]*policy.Policy, len(messages))
	for i, m := range messages {
		policies[i] = r.policy(i, m)
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

// withRules returns the set with rules of a message, checked as those of a policies file. The error is a *shard.Error that names
// every wrong field and its line.
func withRules(set *policy.Set, rules string) (*policy.Set, error) {
	set, err := policy.ParseRules("rules", []byte(rules), set)
	var wrong *policy.ParseError
	if errors.As(err, &wrong) {
		return nil, shard.Invalidf("rules", "%s", wrong)
	}
	return set, err
}

// PolicyFrom reads one policy that a server has sent. The server has checked it, so the only error is a message that
// cannot be read. The policy is in no Set, so it cannot be resolved.
func PolicyFrom(m *stintv1.Policy) (*policy.Policy, error) {
	var r policyReader
	p := r.policy(0, m)
	if len(r.problems) > 0 {
		return nil, policyError(r.problems)
	}
	return p, nil
}

// limitsFrom reads the limits that a request brings along, with the checks of a policy's limits. path is the path of the
// message that contains them, such as "entries[0]". The error is a *shard.Error that names the field.
func limitsFrom(path string, messages []*stintv1.Limit) ([]policy.Limit, error) {
	var r policyReader
	limits := make([]policy.Limit, len(messages))
	for i, m := range messages {
		limits[i] = r.limit(fmt.Sprintf("%s.limits[%d]", path, i), m)
		if len(r.problems) > 0 {
			return nil, shard.Invalidf(r.problems[0].Path, "%s", r.problems[0].Message)
		}
	}
	if problems := policy.LimitProblems(limits); len(problems) > 0 {
		return nil, shard.Invalidf(path+"."+problems[0].Path, "%s", problems[0].Message)
	}
	return limits, nil
}

// problemsToldMax keeps an error within the size of a header, in which gRPC sends it.
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

// policyReader turns messages into policies. It checks only what is specific to messages; policy.Build checks the rest.
type policyReader struct{ problems []policy.Problem }

func (r *policyReader) fail(path, format string, args ...any) {
	r.problems = append(r.problems, policy.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (r *policyReader) policy(i int, m *stintv1.Policy) *policy.Policy {
	path := m.GetName()
	if policy.NameProblem(path) != "" {
		path = fmt.Sprintf("[%d]", i)
	}
	p := &policy.Policy{Name: m.GetName(), DefaultTier: m.GetDefaultTier(), Security: m.GetSecurity(),
		Shadow: m.GetShadow(), Headers: slices.Clone(m.GetHeaders()), Notify: slices.Clone(m.GetNotify()), Reason: m.GetReason(),
		Retention: policy.DefaultRetention, CountDenied: m.GetCountDenied(), Parent: m.GetParent(), MaxKeys: m.GetMaxKeys(),
		UnknownKey: meaning(r, path+".unknown_key", m.GetUnknownKey(), unknownKeyOf),
		OnExpire:   meaning(r, path+".on_expire", m.GetOnExpire(), onExpireOf),
		OnChange:   meaning(r, path+".on_change", m.GetOnChange(), onChangeOf)}
	if l := m.GetLockout(); l != nil {
		p.Lockout = r.lockout(path+".lockout", l)
	}
	if meter := m.GetMeter(); meter != nil {
		p.Meter = r.meter(path+".meter", meter)
	}
	if denyCache := m.GetDenyCache(); denyCache != nil {
		p.DenyCache = r.span(path+".deny_cache", denyCache)
	}
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
		p.Tiers[name] = policy.Tier{Unlimited: m.Tiers[name].GetUnlimited(), Limits: tierLimitsFrom(m.Tiers[name].GetLimits())}
	}
	return p
}

// tierLimitsFrom reads the changes of a tier or an override, by the name of the limit.
func tierLimitsFrom(messages map[string]*stintv1.TierLimit) map[string]policy.TierLimit {
	limits := make(map[string]policy.TierLimit, len(messages))
	for name, m := range messages {
		if m != nil {
			limits[name] = policy.TierLimit{Quota: m.Quota, Refill: m.Refill, Rate: m.Rate}
		} else {
			limits[name] = policy.TierLimit{}
		}
	}
	return limits
}

// These maps translate the enums of a policy. The unspecified value comes first.
var (
	onExpireOf = map[stintv1.OnExpire]policy.OnExpire{
		stintv1.OnExpire_ON_EXPIRE_UNSPECIFIED: policy.OnExpireCancel,
		stintv1.OnExpire_ON_EXPIRE_CANCEL:      policy.OnExpireCancel,
		stintv1.OnExpire_ON_EXPIRE_COMMIT:      policy.OnExpireCommit,
	}
	unknownKeyOf = map[stintv1.UnknownKey]policy.UnknownKey{
		stintv1.UnknownKey_UNKNOWN_KEY_UNSPECIFIED: policy.UnknownKeyAllow,
		stintv1.UnknownKey_UNKNOWN_KEY_ALLOW:       policy.UnknownKeyAllow,
		stintv1.UnknownKey_UNKNOWN_KEY_DENY:        policy.UnknownKeyDeny,
	}
	onChangeOf = map[stintv1.OnChange]policy.OnChange{
		stintv1.OnChange_ON_CHANGE_UNSPECIFIED:  policy.AsIs,
		stintv1.OnChange_ON_CHANGE_AS_IS:        policy.AsIs,
		stintv1.OnChange_ON_CHANGE_PROPORTIONAL: policy.Proportional,
		stintv1.OnChange_ON_CHANGE_ADDITIVE:     policy.Additive,
		stintv1.OnChange_ON_CHANGE_RESET:        policy.Restart,
	}
	onRecoveryOf = map[stintv1.OnRecovery]policy.OnRecovery{
		stintv1.OnRecovery_ON_RECOVERY_UNSPECIFIED: policy.RecoverFull,
		stintv1.OnRecovery_ON_RECOVERY_FULL:        policy.RecoverFull,
		stintv1.OnRecovery_ON_RECOVERY_KEEP:        policy.RecoverKeep,
	}
	onExceededOf = map[stintv1.OnExceeded]policy.OnExceeded{
		stintv1.OnExceeded_ON_EXCEEDED_UNSPECIFIED: policy.ExceededDeny,
		stintv1.OnExceeded_ON_EXCEEDED_DENY:        policy.ExceededDeny,
		stintv1.OnExceeded_ON_EXCEEDED_CHALLENGE:   policy.ExceededChallenge,
	}
	anchorOf = map[stintv1.Anchor]limit.Algorithm{
		stintv1.Anchor_ANCHOR_UNSPECIFIED: limit.FixedWindow,
		stintv1.Anchor_ANCHOR_EPOCH:       limit.FixedWindow,
		stintv1.Anchor_ANCHOR_FIRST_HIT:   limit.FixedWindowFirstHit,
	}
)

// meaning translates an enum value. An unknown value is a problem, and is read as if it were unspecified.
func meaning[E ~int32, M any](r *policyReader, path string, sent E, of map[E]M) M {
	known, ok := of[sent]
	if !ok {
		r.fail(path, "%d is none", sent)
		return of[0]
	}
	return known
}

// lockout reads a ladder, with the defaults of a policies file.
func (r *policyReader) lockout(path string, m *stintv1.Lockout) *policy.Lockout {
	l := policy.DefaultLockout(r.span(path+".base", m.GetBase()))
	l.After, l.OnDenied, l.StepDown = m.GetAfter(), m.GetOnDenied(), m.GetStepDown()
	if m.GetFactor() != 0 {
		l.Factor = m.GetFactor()
	}
	if m.GetMax() != nil {
		l.Max = r.span(path+".max", m.GetMax())
	}
	if m.GetForgiveAfter() != nil {
		l.ForgiveAfter = r.span(path+".forgive_after", m.GetForgiveAfter())
	}
	return &l
}

// meter reads a meter, with the defaults of a policies file.
func (r *policyReader) meter(path string, m *stintv1.Meter) *policy.Meter {
	read := &policy.Meter{Name: m.GetName(), Retain: policy.MeterRetain, Grace: policy.MeterGrace}
	if m.GetCalendar() != nil {
		read.Cycle = r.cycle(path+".calendar", m.GetCalendar())
	}
	if m.GetRetain() != 0 {
		read.Retain = uint64(m.GetRetain())
	}
	if m.GetGrace() != nil {
		read.Grace = r.span(path+".grace", m.GetGrace())
	}
	return read
}

func (r *policyReader) limit(path string, m *stintv1.Limit) policy.Limit {
	l := policy.Limit{Name: m.GetName(), Unit: m.GetUnit(), Shadow: m.GetShadow(), Reason: m.GetReason(),
		OnRecovery: meaning(r, path+".on_recovery", m.GetOnRecovery(), onRecoveryOf),
		OnExceeded: meaning(r, path+".on_exceeded", m.GetOnExceeded(), onExceededOf)}
	for _, t := range m.GetThresholds() {
		l.Thresholds = append(l.Thresholds, policy.Threshold{Percent: t.GetPercent(), Units: t.GetUnits()})
	}
	if l.Quota = m.GetQuota(); m.GetUnlimited() == nil && (m == nil || m.Quota == nil) {
		r.fail(path+".quota", "is missing: 0 would deny everything")
	}
	switch a := m.GetAlgorithm().(type) {
	case *stintv1.Limit_FixedWindow:
		l.Algorithm = meaning(r, path+".fixed_window.anchor", a.FixedWindow.GetAnchor(), anchorOf)
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
	case *stintv1.Limit_Calendar:
		l.Algorithm, l.Cycle = limit.Calendar, r.cycle(path+".calendar", a.Calendar)
	case *stintv1.Limit_Concurrency:
		l.Algorithm = limit.Concurrency
	default:
		r.fail(path, "needs an algorithm")
	}
	return l
}

// cycle reads the period of a calendar limit. Units have the same numbers as in limit.Unit.
func (r *policyReader) cycle(path string, m *stintv1.Calendar) *limit.Cycle {
	unit := m.GetUnit()
	if unit < stintv1.Unit_UNIT_MINUTE || unit > stintv1.Unit_UNIT_YEAR {
		r.fail(path+".unit", "must be minute, hour, day, week, month or year")
		unit = stintv1.Unit_UNIT_UNSPECIFIED
	}
	c := policy.UsualCycle(limit.Unit(unit))
	if every := m.GetEvery(); every != 0 {
		c.Every = uint16(r.small(path+".every", every, math.MaxUint16))
	}
	if day := m.GetAnchorDay(); day != 0 {
		c.AnchorDay = uint8(r.small(path+".anchor_day", day, math.MaxUint8))
	}
	if start := m.GetWeekStart(); start != 0 {
		c.WeekStart = uint8(r.small(path+".week_start", start, math.MaxUint8))
	}
	zone, err := zoneOf(m.GetTimeZone())
	var wrong *limit.FieldError
	if errors.As(err, &wrong) {
		r.fail(path+".time_zone", "%s", wrong.Message)
	}
	c.Zone = zone
	return c
}

func (r *policyReader) small(path string, n, most uint32) uint32 {
	if n > most {
		r.fail(path, "%d is more than %d", n, most)
	}
	return n
}

// span reads a duration that a policies file could contain.
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
