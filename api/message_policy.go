package api

import (
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// PolicyMessages translates a set into messages, in alphabetical order.
func PolicyMessages(set *policy.Set) []*stintv1.Policy {
	var messages []*stintv1.Policy
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		messages = append(messages, policyOf(p))
	}
	return messages
}

func policyOf(p *policy.Policy) *stintv1.Policy {
	m := &stintv1.Policy{
		Name:                 p.Name,
		DefaultTier:          p.DefaultTier,
		Security:             p.Security,
		Shadow:               p.Shadow,
		Headers:              p.Headers,
		Reason:               p.Reason,
		IdempotencyRetention: durationOf(p.Retention),
		CountDenied:          p.CountDenied,
		Parent:               p.Parent,
		MaxKeys:              p.MaxKeys,
		Lockout:              lockoutMessage(p.Lockout),
		Meter:                meterMessage(p.Meter),
		Notify:               p.Notify,
	}
	if p.DenyCache != 0 {
		m.DenyCache = durationOf(p.DenyCache)
	}
	if p.OnExpire != policy.OnExpireCancel { // defaults are left out, as in a file
		m.OnExpire = stintv1.OnExpire(p.OnExpire)
	}
	if p.UnknownKey == policy.UnknownKeyDeny {
		m.UnknownKey = stintv1.UnknownKey_UNKNOWN_KEY_DENY
	}
	if p.OnChange != policy.AsIs {
		m.OnChange = stintv1.OnChange(p.OnChange) + stintv1.OnChange_ON_CHANGE_AS_IS
	}
	for i := range p.Limits {
		m.Limits = append(m.Limits, limitOf(&p.Limits[i]))
	}
	if len(p.Tiers) > 0 {
		m.Tiers = make(map[string]*stintv1.Tier, len(p.Tiers))
	}
	for name, tier := range p.Tiers {
		m.Tiers[name] = tierMessage(tier)
	}
	return m
}

func tierMessage(t policy.Tier) *stintv1.Tier {
	return &stintv1.Tier{Unlimited: t.Unlimited, Limits: tierLimitMessages(t.Limits)}
}

func tierLimitMessages(limits map[string]policy.TierLimit) map[string]*stintv1.TierLimit {
	if len(limits) == 0 {
		return nil
	}
	messages := make(map[string]*stintv1.TierLimit, len(limits))
	for name, l := range limits {
		messages[name] = &stintv1.TierLimit{Quota: l.Quota, Refill: l.Refill, Rate: l.Rate}
	}
	return messages
}

func lockoutMessage(l *policy.Lockout) *stintv1.Lockout {
	if l == nil {
		return nil
	}
	return &stintv1.Lockout{After: l.After, Base: durationOf(l.Base), Factor: l.Factor, Max: durationOf(l.Max),
		ForgiveAfter: durationOf(l.ForgiveAfter), OnDenied: l.OnDenied, StepDown: l.StepDown}
}

func meterMessage(m *policy.Meter) *stintv1.Meter {
	if m == nil {
		return nil
	}
	return &stintv1.Meter{Name: m.Name, Calendar: calendarMessage(m.Cycle), Retain: uint32(m.Retain), Grace: durationOf(m.Grace)}
}

func thresholdMessage(t policy.Threshold) *stintv1.Threshold {
	if t.Percent != 0 {
		return &stintv1.Threshold{At: &stintv1.Threshold_Percent{Percent: t.Percent}}
	}
	return &stintv1.Threshold{At: &stintv1.Threshold_Units{Units: t.Units}}
}

func limitOf(l *policy.Limit) *stintv1.Limit {
	m := &stintv1.Limit{Name: l.Name, Unit: l.Unit, Shadow: l.Shadow, Reason: l.Reason}
	for _, t := range l.Thresholds {
		m.Thresholds = append(m.Thresholds, thresholdMessage(t))
	}
	if l.Algorithm != limit.Unlimited {
		m.Quota = &l.Quota
	}
	if l.OnRecovery == policy.RecoverKeep {
		m.OnRecovery = stintv1.OnRecovery_ON_RECOVERY_KEEP
	}
	if l.OnExceeded == policy.ExceededChallenge {
		m.OnExceeded = stintv1.OnExceeded_ON_EXCEEDED_CHALLENGE
	}
	period := durationOf(l.Period)
	switch l.Algorithm {
	case limit.FixedWindow:
		m.Algorithm = fixedWindow(l.Period, stintv1.Anchor_ANCHOR_EPOCH)
	case limit.FixedWindowFirstHit:
		m.Algorithm = fixedWindow(l.Period, stintv1.Anchor_ANCHOR_FIRST_HIT)
	case limit.SlidingWindow:
		m.Algorithm = &stintv1.Limit_SlidingWindow{SlidingWindow: &stintv1.SlidingWindow{Period: period}}
	case limit.SlidingBuckets:
		m.Algorithm = &stintv1.Limit_SlidingWindow{
			SlidingWindow: &stintv1.SlidingWindow{Period: period, Bucket: durationOf(l.Bucket)}}
	case limit.SlidingLog:
		m.Algorithm = &stintv1.Limit_SlidingLog{SlidingLog: &stintv1.SlidingLog{Period: period}}
	case limit.TokenBucket:
		m.Algorithm = &stintv1.Limit_TokenBucket{TokenBucket: tokenBucket(l)}
	case limit.GCRA:
		m.Algorithm = &stintv1.Limit_Gcra{Gcra: &stintv1.Gcra{Rate: l.Count, Per: period}}
	case limit.Calendar:
		m.Algorithm = &stintv1.Limit_Calendar{Calendar: calendarMessage(l.Cycle)}
	case limit.Concurrency:
		m.Algorithm = &stintv1.Limit_Concurrency{Concurrency: &stintv1.Concurrency{}}
	case limit.Lifetime:
		m.Algorithm = &stintv1.Limit_Lifetime{Lifetime: &stintv1.Lifetime{}}
	case limit.Unlimited:
		m.Algorithm = &stintv1.Limit_Unlimited{Unlimited: &stintv1.Unlimited{}}
	}
	return m
}

func fixedWindow(period limit.Span, anchor stintv1.Anchor) *stintv1.Limit_FixedWindow {
	return &stintv1.Limit_FixedWindow{
		FixedWindow: &stintv1.FixedWindow{Period: durationOf(period), Anchor: anchor}}
}

// calendarMessage relies on equal numbers in stintv1.Unit and limit.Unit.
func calendarMessage(c *limit.Cycle) *stintv1.Calendar {
	return &stintv1.Calendar{Unit: stintv1.Unit(c.Unit), TimeZone: c.Zone.String(), AnchorDay: uint32(c.AnchorDay),
		WeekStart: uint32(c.WeekStart), Every: uint32(c.Every)}
}

func tokenBucket(l *policy.Limit) *stintv1.TokenBucket {
	m := &stintv1.TokenBucket{Refill: l.Count, Per: durationOf(l.Period)}
	if l.Initial != l.Quota {
		m.Initial = &l.Initial
	}
	return m
}
