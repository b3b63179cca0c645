package model

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
)

// wait returns how long it takes until a condition holds if nothing is done, and open holds and overrides end at their
// time. Between two such ends the admitted amount only grows, so each of these spans can be searched. Units counted
// under other numbers are carried over now: by the request, or by one that it looks ahead to.
func wait(all []*openCharge, now limit.Time, admits func([]*openCharge, limit.Time) bool) limit.Span {
	for _, a := range all {
		a.counter.carry(a.limits, a.policy, now)
	}
	ends := []limit.Time{now}
	for _, a := range all {
		for _, hold := range a.counter.holds {
			ends = append(ends, hold.expires)
		}
		if o := a.counter.override; o != nil && o.Expires != 0 && !a.alone {
			ends = append(ends, o.Expires)
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

// ahead copies the counters in their state at an instant if nothing is done; only holds and overrides that end by from
// have ended.
func ahead(all []*openCharge, from limit.Time) (later []*openCharge) {
	for _, a := range all {
		other := *a
		other.counter = a.counter.copied()
		if o := other.counter.override; o != nil && o.Expires != 0 && o.Expires <= from && !a.alone {
			other.counter.expire(a.policy, o.Expires)
			other.counter.endOverride(a.policy, a.Tier, nil, o.Expires)
			other.limits = resolve(a.policy, a.Tier, nil)
		}
		other.counter.expire(a.policy, from)
		later = append(later, &other)
	}
	return later
}

// admitsAll returns a condition: whether a request would be admitted.
func admitsAll(op Op) func([]*openCharge, limit.Time) bool {
	return func(all []*openCharge, at limit.Time) bool {
		for _, a := range all {
			if a.deniedUntil(at) > at || a.unknown() {
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
