package api

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// ruleShown is decisions.RuleOf, of a bucket with the rate that its status shows. A key may have an override, of another
// tier or of a rate of its own; a rate that no tier has is not known, and then neither is when its units come back.
func ruleShown(policies *policy.Set, r *shard.Request, d *shard.Decision, s *shard.LimitStatus) (policy.Limit, bool) {
	l, found := decisions.RuleOf(policies, r, s)
	p := decisions.PolicyOf(policies, r, s)
	fits := func(l policy.Limit) bool { return l.Name == s.Limit && l.Quota == s.Quota && comesBack(&l, d, s) }
	if l.Count == 0 || p == nil || p.Lease != nil && l.Quota == s.Quota || fits(l) { // leased units do not come back
		return l, found
	}
	tiers := p.EveryTier()
	for _, tier := range slices.Sorted(maps.Keys(tiers)) {
		if i := slices.IndexFunc(tiers[tier], fits); i >= 0 { //mutant:headers-of-another-tier
			return tiers[tier][i], true
		}
	}
	return policy.Limit{Unit: l.Unit}, found
}

// comesBack reports whether what is used comes back at the rate of a bucket in the time that its status tells: the last
// of the used units may be a part of one.
func comesBack(l *policy.Limit, d *shard.Decision, s *shard.LimitStatus) bool {
	span, least, most := limit.Span(s.ResetAt-d.DecidedAt), l.Limit, l.Limit
	least.Quota, most.Quota = s.Used-min(s.Used, 1), s.Used
	return span <= 0 || refillTime(least) <= span && span <= refillTime(most)
}

// windowOf returns the span in which a limit's whole quota comes back. It returns 0 if it never does, or if it is not
// known: l is the zero Limit then, as of a policy that no longer exists.
func windowOf(l *policy.Limit, s *shard.LimitStatus) limit.Span {
	switch {
	case l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA:
		whole := l.Limit
		whole.Quota = s.Quota // the key may have an override
		return refillTime(whole)
	case l.Algorithm == limit.Calendar && s.Used > 0: // else no period is open
		return limit.Span(s.ResetAt - s.WindowStart)
	}
	return l.Period
}

// refillTime returns ceil(quota x period / count), computed in 128 bits; 0 if the result does not fit a Span.
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
