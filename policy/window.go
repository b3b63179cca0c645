package policy

import (
	"maps"
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
)

// window returns how long a limit can remember a request. For token buckets and GCRA it is the time until all of the
// quota is back. Open holds do not matter, since each has a time of its own. math.MaxInt64 stands for forever.
func window(l limit.Limit) limit.Span {
	switch l.Algorithm {
	case limit.Lifetime:
		return math.MaxInt64
	case limit.TokenBucket, limit.GCRA:
		return l.FillSpan()
	case limit.Calendar:
		if l.Cycle == nil { // Validate refuses this
			return 0
		}
		return limit.Span(l.Cycle.Every) * unitSpans[l.Cycle.Unit]
	}
	return l.Period
}

// longestWindow returns the longest window of the policy's limits under any tier.
func (p *Policy) longestWindow() (longest limit.Span) {
	for _, tier := range append(slices.Collect(maps.Values(p.Tiers)), Tier{}) {
		for _, l := range tier.resolve(p.Limits) {
			longest = max(longest, window(l.Limit))
		}
	}
	return longest
}

// unitSpans are the longest lengths of the calendar units, including an hour for daylight saving.
var unitSpans = map[limit.Unit]limit.Span{
	limit.Minute: minute,
	limit.Hour:   hour,
	limit.Day:    25 * hour,
	limit.Week:   (7*24 + 1) * hour,
	limit.Month:  (31*24 + 1) * hour,
	limit.Year:   (366*24 + 1) * hour,
}
