package limit

import (
	"math"
	"math/bits"
)

// A token bucket and GCRA are two notations for one number: how much is missing until the key is at rest again. Both
// keep it as a whole number of parts. One unit is per parts, and one microsecond gives back count parts, where count /
// per is Count / Period reduced. Quota * per fits 62 bits (Validate), so rounding never loses anything.

// rate returns Count / Period in lowest terms. Each division costs as much as the rest of a decision, and most periods
// are a multiple of their count, so that case is tried first. Count must not be 0.
func (l Limit) rate() (count, per uint64) {
	if per = uint64(l.Period) / l.Count; per*l.Count == uint64(l.Period) {
		return 1, per
	}
	divisor := gcd(uint64(l.Period), l.Count)
	return l.Count / divisor, uint64(l.Period) / divisor
}

// FillSpan returns how long a limit with a rate takes to get all of its quota back, rounded up, at most math.MaxInt64.
func (l Limit) FillSpan() Span {
	return Span(mulDivUp(l.Quota, uint64(l.Period), l.Count, math.MaxInt64))
}

// stillMissing returns how much of some units, in parts, is certainly still missing after elapsed has passed since they
// were taken. Without the take, the key would be fuller now by at least this much: at most the parts that came back in
// that time would have overflowed. So a refund of no more than this, and of no more than is missing, never admits more
// than if the units had not been taken.
func stillMissing(l Limit, units uint64, elapsed Time) uint64 {
	count, per := l.rate()
	tookHigh, tookLow := bits.Mul64(units, per)
	cameHigh, cameLow := bits.Mul64(uint64(max(0, elapsed)), count)
	low, borrow := bits.Sub64(tookLow, cameLow, 0)
	high, borrow := bits.Sub64(tookHigh, cameHigh, borrow)
	switch {
	case borrow != 0:
		return 0
	case high != 0:
		return maxUnits
	}
	return min(low, maxUnits)
}

// waitUntilFits returns 0 if cost more units can be missing now, else the wait until they can.
func waitUntilFits(l Limit, missing, cost uint64) Span {
	count, per := l.rate()
	after, most := missing+cost*per, l.Quota*per
	if after <= most {
		return 0
	}
	return Span(divUp(after-most, count))
}

// rateStatus reports the missing parts as Used units, rounded up.
func rateStatus(l Limit, missing uint64, now Time) Verdict {
	count, per := l.rate()
	return Verdict{Used: divUp(missing, per), ResetAt: now + Time(divUp(missing, count))}
}
