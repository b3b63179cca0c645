package bench

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// rule is the part of a limit that can deny which bounds need: the units admitted at once, and those that come back
// with time.
type rule struct {
	atRest uint64        // units admitted at once to a key that was never used
	quota  uint64        // units that one window admits, or that a bucket holds
	period time.Duration // of a window; refill: the span in which refill units come back
	refill uint64        // units that come back continuously in a period; 0 for windows
	kind   windowKind
}

// windowKind is how windows follow each other, which determines how many of them a run can meet.
type windowKind uint8

const (
	refilling windowKind = iota // no windows: units come back continuously
	aligned                     // to the Unix epoch
	rolling                     // spent units come back only after a whole period
	// Two aligned windows: the older one counts by the share of it that the sliding window still covers.
	weighted
	endless // nothing ever comes back
)

// rulesOf reads the limits that can deny a key of one tier. It fails for algorithms without known bounds.
func rulesOf(p *stintv1.Policy, tierName string) ([]rule, error) {
	tierName = cmp.Or(tierName, p.DefaultTier)
	tier := p.Tiers[tierName]
	if tier == nil && tierName != "" {
		return nil, fmt.Errorf("policy %s has no tier %q", p.Name, tierName)
	}
	if p.Shadow || tier.GetUnlimited() {
		return nil, nil
	}
	var rules []rule
	for _, l := range p.Limits {
		if l.Shadow || l.GetUnlimited() != nil {
			continue
		}
		r, err := ruleOf(l, tier.GetLimits()[l.Name])
		if err != nil {
			return nil, fmt.Errorf("policy %s, limit %s: %w", p.Name, l.Name, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// ruleOf reads one limit. tier has numbers in place of its own, and may be nil.
func ruleOf(l *stintv1.Limit, tier *stintv1.TierLimit) (rule, error) {
	quota := l.GetQuota()
	if tier != nil && tier.Quota != nil {
		quota = *tier.Quota
	}
	window := func(period time.Duration, kind windowKind) (rule, error) {
		return rule{atRest: quota, quota: quota, period: period, kind: kind}, nil
	}
	switch a := l.Algorithm.(type) {
	case *stintv1.Limit_FixedWindow:
		if a.FixedWindow.Anchor == stintv1.Anchor_ANCHOR_FIRST_HIT {
			return window(a.FixedWindow.Period.AsDuration(), rolling)
		}
		return window(a.FixedWindow.Period.AsDuration(), aligned)
	case *stintv1.Limit_SlidingWindow:
		if a.SlidingWindow.Bucket == nil {
			return window(a.SlidingWindow.Period.AsDuration(), weighted)
		}
		// A bucket expires as a whole: units spent at its end come back one bucket early.
		return window(max(a.SlidingWindow.Period.AsDuration()-a.SlidingWindow.Bucket.AsDuration(), 1), rolling)
	case *stintv1.Limit_SlidingLog:
		return window(a.SlidingLog.Period.AsDuration(), rolling)
	case *stintv1.Limit_Lifetime:
		return window(0, endless)
	case *stintv1.Limit_TokenBucket:
		return bucketRule(a.TokenBucket, quota, tier), nil
	case *stintv1.Limit_Gcra:
		rate := a.Gcra.Rate
		if tier != nil && tier.Rate != nil {
			rate = *tier.Rate
		}
		return rule{atRest: quota, quota: quota, refill: rate, period: a.Gcra.Per.AsDuration(), kind: refilling}, nil
	}
	return rule{}, fmt.Errorf("the audit knows no bounds for %T", l.Algorithm)
}

func bucketRule(b *stintv1.TokenBucket, quota uint64, tier *stintv1.TierLimit) rule {
	r := rule{atRest: quota, quota: quota, refill: b.Refill, period: b.Per.AsDuration(), kind: refilling}
	if b.Initial != nil {
		r.atRest = min(quota, *b.Initial)
	}
	if tier != nil && tier.Refill != nil {
		r.refill = *tier.Refill
	}
	return r
}

// atMost returns the most units that a server may admit to a key within the span, in requests of one cost. The server's
// clock may differ from this machine's. If the bound depends on the start of a window, it allows a second on both
// sides. So near an edge the bound is larger than necessary, but never too small.
func (r rule) atMost(cost uint64, s Span) uint64 {
	const skew = time.Second
	elapsed := s.Ended.Sub(s.Began)
	elapsed += elapsed/1000 + time.Millisecond // shard time is slewed by 500 ppm at most
	perWindow := floorTo(r.quota, cost)
	switch r.kind {
	case endless:
		return perWindow
	case aligned:
		first, last := s.Began.Add(-skew).UnixNano()/int64(r.period), s.Ended.Add(skew).UnixNano()/int64(r.period)
		return times(perWindow, uint64(last-first+1))
	case rolling:
		windows := 1 + uint64(elapsed/r.period)
		if !s.Fresh {
			windows++ // a window that was open when the run began
		}
		return times(perWindow, windows)
	case weighted:
		// Window n admits at most quota minus the remaining weight of window n-1: in all quota x (1 + elapsed /
		// period).
		return floorTo(plus(r.quota, share(r.quota, elapsed, r.period)), cost)
	}
	start := r.quota
	if s.Fresh {
		start = r.atRest
	}
	return floorTo(plus(start, share(r.refill, elapsed, r.period)), cost)
}

// floorTo is what whole requests of one cost can spend of the units.
func floorTo(units, cost uint64) uint64 { return units - units%cost }

// share is units x elapsed / period, rounded down, at most the largest number.
func share(units uint64, elapsed, period time.Duration) uint64 {
	hi, lo := bits.Mul64(units, uint64(elapsed))
	if hi >= uint64(period) {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(period))
	return quotient
}

// times is a x b, at most the largest number.
func times(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi > 0 {
		return math.MaxUint64
	}
	return lo
}

// plus is a + b, at most the largest number.
func plus(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return sum
}

// atRest is the number of units admitted at once to a key never used before, under all the rules.
func atRest(rules []rule) uint64 {
	least := uint64(math.MaxUint64)
	for _, r := range rules {
		least = min(least, r.atRest)
	}
	return least
}

// atMost is the least of the rules' bounds.
func atMost(rules []rule, cost uint64, s Span) uint64 {
	least := uint64(math.MaxUint64)
	for _, r := range rules {
		least = min(least, r.atMost(cost, s))
	}
	return least
}
