package limit

import "math/bits"

// mulDiv is floor(a * b / c), or most where the result is larger. c must not be 0.
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

// divUp is a / b rounded up. b must not be 0.
func divUp(a, b uint64) uint64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}

// product is a * b, at most maxUnits.
func product(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return maxUnits
	}
	return min(lo, maxUnits)
}

// sum is a + b, at most maxUnits. Neither may be more than maxUnits.
func sum(a, b uint64) uint64 { return min(a+b, maxUnits) }

// less is a - b, at least 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
