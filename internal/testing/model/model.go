package model

import (
	"fmt"
	"math"
	"math/big"

	"github.com/stint-io/stint/limit"
)

// Model is one limit on one key. The instants of its calls must not decrease.
type Model struct {
	limit  limit.Limit
	memory memory
}

// memory is an algorithm's record of the past, and its judgment by it.
type memory interface {
	// used is the amount that counts at an instant, as a fraction, if nothing happens until then.
	used(at limit.Time) *big.Rat
	// count records units spent at an instant, which must not be before any earlier one.
	count(units uint64, at limit.Time)
	// refund gives back units that were spent at taken.
	refund(units uint64, taken, now limit.Time)
}

// window is a memory that counts whole windows, one after the other.
type window interface {
	memory
	// openAt is the window of an instant, with the units spent in it; from is 0 when none is open.
	openAt(now limit.Time) (from, until limit.Time, units uint64)
}

// New returns the Model of a key at rest. The limit must be valid.
func New(l limit.Limit) *Model { return &Model{limit: l, memory: memoryOf(l)} }

func memoryOf(l limit.Limit) memory {
	switch l.Algorithm {
	case limit.FixedWindow:
		return &epochWindow{cells{keep: 1, width: l.Period}}
	case limit.FixedWindowFirstHit:
		return &anchoredWindow{period: l.Period}
	case limit.SlidingWindow:
		return &weightedWindow{cells{keep: 2, width: l.Period}}
	case limit.SlidingBuckets:
		return &cells{keep: int64(l.Period / l.Bucket), width: l.Bucket}
	case limit.SlidingLog:
		return &cells{keep: int64(l.Period), width: 1}
	case limit.TokenBucket:
		return newBucket(l)
	case limit.GCRA:
		return newArrivals(l)
	case limit.Calendar:
		return newPeriods(*l.Cycle)
	case limit.Lifetime, limit.Unlimited, limit.Concurrency:
		return &total{}
	}
	panic(fmt.Sprintf("model: no model of algorithm %d", l.Algorithm))
}

// total counts everything.
type total struct{ units uint64 }

func (t *total) used(limit.Time) *big.Rat             { return rat(t.units) }
func (t *total) count(units uint64, _ limit.Time)     { t.units += units }
func (t *total) refund(units uint64, _, _ limit.Time) { t.units -= min(units, t.units) }

// Take decides a request and counts it if it is admitted.
func (m *Model) Take(cost uint64, now limit.Time) limit.Verdict {
	if !m.Admits(cost, now) {
		return m.deny(cost, now)
	}
	m.memory.count(cost, now)
	return m.Status(now)
}

// Peek decides a request and does not count it.
func (m *Model) Peek(cost uint64, now limit.Time) limit.Verdict {
	if !m.Admits(cost, now) {
		return m.deny(cost, now)
	}
	return m.Status(now)
}

// Add counts units, regardless of the limit.
func (m *Model) Add(units uint64, now limit.Time) limit.Verdict {
	m.count(units, now)
	v := m.Status(now)
	v.Allowed = m.limit.Algorithm == limit.Unlimited || v.Used <= m.limit.Quota
	return v
}

// count counts all units, in the form of addBounded.
func (m *Model) count(units uint64, now limit.Time) (all bool) {
	m.memory.count(units, now)
	return true
}

// addBounded counts units. A token bucket or GCRA is charged only up to twice the quota. It reports whether all units
// were counted.
func (m *Model) addBounded(units uint64, now limit.Time) (all bool) {
	asked := units
	if m.limit.Count > 0 {
		most := 2 * m.limit.Quota
		units = min(units, most-min(most, ceiling(m.memory.used(now))))
	}
	if units > 0 {
		m.memory.count(units, now)
	}
	return units == asked
}

// Refund gives back units spent at taken.
func (m *Model) Refund(cost uint64, taken, now limit.Time) { m.memory.refund(cost, taken, now) }

// Admits reports whether a request would be admitted at an instant if nothing is spent until then.
func (m *Model) Admits(cost uint64, at limit.Time) bool {
	if m.limit.Algorithm == limit.Unlimited {
		return true
	}
	if neverBegun(m.memory) {
		at = 0
	}
	return cost <= m.limit.Quota && m.memory.used(at).Cmp(rat(m.limit.Quota-cost)) <= 0
}

// Idle reports whether nothing counts at an instant.
func (m *Model) Idle(at limit.Time) bool {
	if n, ok := m.memory.(*integer); ok {
		return !n.isThere(at)
	}
	return neverBegun(m.memory) || m.memory.used(at).Sign() == 0
}

// Status is the state at an instant, without a decision.
func (m *Model) Status(now limit.Time) limit.Verdict {
	v := m.numbers(now)
	v.ResetAt = 0
	if wait := firstWait(now, m.Idle); wait != limit.Never {
		v.ResetAt = now + limit.Time(wait)
	}
	return v
}

// numbers is a Status without the search for ResetAt.
func (m *Model) numbers(now limit.Time) limit.Verdict {
	used := ceiling(m.memory.used(now))
	v := limit.Verdict{Allowed: true, Used: used}
	if w, ok := m.memory.(window); ok {
		v.WindowStart, _, _ = w.openAt(now)
	}
	if used < m.limit.Quota {
		v.Remaining = m.limit.Quota - used
	}
	return v
}

// spent is the used units. It does not count the tokens that an unused bucket does not hold yet.
func (m *Model) spent(now limit.Time) uint64 {
	if neverBegun(m.memory) {
		return 0
	}
	return ceiling(m.memory.used(now))
}

// stillCounts reports whether units taken at an instant could be refunded.
func (m *Model) stillCounts(taken, now limit.Time) bool {
	other := m.copied()
	other.memory.refund(limit.MaxCost, taken, now)
	return other.memory.used(now).Cmp(m.memory.used(now)) != 0
}

func (m *Model) deny(cost uint64, now limit.Time) limit.Verdict {
	v := m.Status(now)
	v.Allowed = false
	v.RetryAfter = firstWait(now, func(at limit.Time) bool { return m.Admits(cost, at) })
	return v
}

// firstWait searches for the first instant from now on at which a condition becomes true. Once true, the condition must
// stay true.
func firstWait(now limit.Time, becomes func(limit.Time) bool) limit.Span {
	if becomes(now) {
		return 0
	}
	no, yes := limit.Time(0), limit.Time(1)
	for !becomes(now + yes) {
		if no = yes; yes > math.MaxInt64/4 {
			return limit.Never
		}
		yes *= 2
	}
	for yes-no > 1 {
		if middle := no + (yes-no)/2; becomes(now + middle) {
			yes = middle
		} else {
			no = middle
		}
	}
	return limit.Span(yes)
}

func rat(n uint64) *big.Rat { return new(big.Rat).SetUint64(n) }

func ceiling(r *big.Rat) uint64 {
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Uint64()
}
