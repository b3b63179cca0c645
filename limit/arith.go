package limit

import "math/bits"

// maxUnits is where counters and levels saturate: the sum of two of them does not overflow.
const maxUnits = 1 << 62

// mulDiv returns floor(a * b / c), but at most most. c must not be 0.
func mulDiv(a, b, c, most uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return most
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, most)
}

// mulDivUp is mulDiv rounded up.
func mulDivUp(a, b, c, most uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return most
	}
	q, r := bits.Div64(hi, lo, c)
	if r != 0 && q < most {
		q++
	}
	return min(q, most)
}

// divUp returns a / b rounded up. b must not be 0.
func divUp(a, b uint64) uint64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}

// product returns a * b, at most maxUnits.
func product(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return maxUnits
	}
	return min(lo, maxUnits)
}

// sum returns a + b, at most maxUnits. Neither may be more than maxUnits.
func sum(a, b uint64) uint64 { return min(a+b, maxUnits) }

// less returns a - b, at least 0.
func less(a, b uint64) uint64 { return a - min(a, b) }

// gcd returns the greatest common divisor; that of a and 0 is a, from which stepOf starts.
func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floorDiv returns a / b rounded down. b must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// heavier reports whether a * b > c * d.
func heavier(a, b, c, d uint64) bool {
	hi, lo := bits.Mul64(a, b)
	otherHi, otherLo := bits.Mul64(c, d)
	return hi > otherHi || hi == otherHi && lo > otherLo
}
