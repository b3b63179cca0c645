package check

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
)

// wait is how long it takes until something is true if nobody does anything and open holds end at their time. Between
// two such ends what is admitted only grows, so it is enough to search each of these spans.
func wait(all []*asked, now limit.Time, admits func([]*asked, limit.Time) bool) limit.Span {
	ends := []limit.Time{now}
	for _, a := range all {
		for _, hold := range a.counter.holds {
			ends = append(ends, hold.expires)
		}
	}
	slices.Sort(ends)
	ends = append(slices.Compact(ends), math.MaxInt64)
	for i, from := range ends[:len(ends)-1] {
		wait := firstWait(from, func(at limit.Time) bool { return admits(ahead(all, from), at) })
		if wait != limit.Never && from+limit.Time(wait) < ends[i+1] {
			return limit.Span(from-now) + wait
		}
	}
	return limit.Never
}

// ahead are copies of counters as they will be at an instant if nobody does anything.
func ahead(all []*asked, at limit.Time) (later []*asked) {
	for _, a := range all {
		other := *a
		other.counter = a.counter.copied()
		other.counter.expire(a.policy.Lockout, at)
		later = append(later, &other)
	}
	return later
}

// admitsAll reports whether a request would be admitted.
func admitsAll(op Op) func([]*asked, limit.Time) bool {
	return func(all []*asked, at limit.Time) bool {
		for _, a := range all {
			if a.blockedUntil(at) > at && !a.policy.Shadow {
				return false
			}
			for i := range a.limits {
				if !a.shadowed(i) && !a.limits[i].Unlimited && !a.at(i, at).model.Admits(a.least(op), at) {
					return false
				}
			}
		}
		return true
	}
}

// least is what an entry must have room for.
func (a *asked) least(op Op) uint64 {
	if op == Partial {
		return 1
	}
	return a.Cost
}
