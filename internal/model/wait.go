package model

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
)

// wait is how long it takes until a condition holds if nothing is done, and open holds and overrides end at their time.
// Between two such ends, and instants at which a limit starts afresh, what is admitted only grows, so each of these spans can be
// searched.
func wait(all []*asked, now limit.Time, admits func([]*asked, limit.Time) bool) limit.Span {
	ends := []limit.Time{now}
	for _, a := range all {
		for _, hold := range a.counter.holds {
			ends = append(ends, hold.expires)
		}
		if o := a.counter.override; o != nil && o.Expires != 0 && !a.alone {
			ends = append(ends, o.Expires)
		}
	}
	for _, from := range slices.Clone(ends) {
		for _, a := range ahead(all, from, from) {
			ends = append(ends, a.rests(from)...)
		}
	}
	slices.Sort(ends)
	ends = append(slices.Compact(ends), math.MaxInt64)
	for i, from := range ends[:len(ends)-1] {
		wait := firstWait(from, func(at limit.Time) bool { return admits(ahead(all, from, at), at) })
		if wait != limit.Never && from+limit.Time(wait) < ends[i+1] {
			return limit.Span(from-now) + wait
		}
	}
	return limit.Never
}

// rests are the instants after from at which limits come to rest that were counted under other numbers. A bucket that begins partly full
// has less room then.
func (a *asked) rests(from limit.Time) (ends []limit.Time) {
	for _, l := range a.limits {
		k := a.counter.find(l.Name)
		if k == nil || k.model == nil || same(k.model.limit, l.Limit) {
			continue
		}
		if wait := firstWait(from, k.atRest); wait > 0 && wait != limit.Never {
			ends = append(ends, from+limit.Time(wait))
		}
	}
	return ends
}

// ahead copies the counters as they will be at an instant if nothing is done; only holds and overrides that end by from have
// ended.
func ahead(all []*asked, from, at limit.Time) (later []*asked) {
	for _, a := range all {
		other := *a
		other.counter = a.counter.copied()
		other.counter.expire(a.policy, from)
		if o := other.counter.override; o != nil && o.Expires != 0 && o.Expires <= from && !a.alone {
			other.counter.renew(a.policy, a.Tier, at)
			other.counter.override = nil
			other.limits = resolve(a.policy, a.Tier, nil)
		}
		later = append(later, &other)
	}
	return later
}

// admitsAll returns a condition: whether a request would be admitted.
func admitsAll(op Op) func([]*asked, limit.Time) bool {
	return func(all []*asked, at limit.Time) bool {
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

// least is the amount that an entry must have room for.
func (a *asked) least(op Op) uint64 {
	if op == Partial {
		return 1
	}
	return max(a.Cost, 1)
}
