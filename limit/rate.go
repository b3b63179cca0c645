package limit

// A token bucket and GCRA are two ways to write down one number: how much is missing until the key is at rest again.
// Both keep it as a whole number of parts. One unit is per parts, one microsecond gives back count parts, where
// count / per is Count / Period reduced. Quota * per fits 62 bits (Validate), so nothing is ever rounded away.

// rate is Count / Period in lowest terms. Each division costs as much as the rest of a decision, and most periods are
// a multiple of their count.
func (l Limit) rate() (count, per uint64) {
	if per = uint64(l.Period) / l.Count; per*l.Count == uint64(l.Period) {
		return 1, per
	}
	divisor := gcd(uint64(l.Period), l.Count)
	return l.Count / divisor, uint64(l.Period) / divisor
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// missingAfter is what is missing when elapsed has passed and nothing was spent.
func missingAfter(missing, count uint64, elapsed Time) uint64 {
	return less(missing, product(uint64(max(0, elapsed)), count))
}

// waitUntilFits is 0 if cost units can be missing besides what is missing already, else how long until they can.
func waitUntilFits(l Limit, missing, cost uint64) Span {
	count, per := l.rate()
	after, most := missing+cost*per, l.Quota*per
	if after <= most {
		return 0
	}
	return Span(divUp(after-most, count))
}

// rateStatus tells of the missing parts as Used units, rounded up.
func rateStatus(l Limit, missing uint64, now Time) Verdict {
	count, per := l.rate()
	return Verdict{Used: divUp(missing, per), ResetAt: now + Time(divUp(missing, count))}
}
