package limit

// gcra is the generic cell rate algorithm (ITU-T I.371). A unit of cost moves the theoretical arrival time (TAT) by one
// emission interval, Period / Count. A request is admitted iff the TAT after it is at most Quota intervals from now.
// From rest, that is exactly Quota units at once, and Count per Period after that, as with a token bucket.
//
// State: T is the TAT in whole microseconds and A is its remainder in parts (rate.go); count parts make a microsecond.
// A key is at rest if its TAT has passed.
type gcra struct{}

func (gcra) settle(_ Limit, s State, now Time) State {
	if s.T < now {
		return State{}
	}
	return s
}

func (gcra) wait(l Limit, s State, cost uint64, now Time) Span {
	return waitUntilFits(l, untilArrival(l, s, now), cost)
}

func (gcra) add(l Limit, s State, units uint64, now Time) State {
	_, per := l.rate()
	return arrival(l, sum(untilArrival(l, s, now), product(units, per)), now)
}

func (gcra) refund(l Limit, s State, units uint64, taken, now Time) State {
	return arrival(l, less(untilArrival(l, s, now), stillMissing(l, units, now-taken)), now)
}

func (gcra) stillCounts(l Limit, s State, _, now Time) bool { return untilArrival(l, s, now) > 0 }

func (gcra) status(l Limit, s State, now Time) Verdict {
	return rateStatus(l, untilArrival(l, s, now), now)
}

func (gcra) forgetAt(_ Limit, s State) Time {
	if s.A > 0 {
		return s.T + 1
	}
	return s.T
}

func (gcra) full(l Limit, found State, f Full) State {
	return arrival(l, max(f.missing(l), untilArrival(l, found, f.At)), f.At)
}

// untilArrival returns how far ahead of now the TAT lies, in parts.
func untilArrival(l Limit, s State, now Time) uint64 {
	if s.T < now {
		return 0
	}
	count, _ := l.rate()
	return sum(product(uint64(s.T-now), count), s.A)
}

// arrival returns the State with a TAT this many parts ahead of now.
func arrival(l Limit, parts uint64, now Time) State {
	if parts == 0 {
		return State{}
	}
	count, _ := l.rate()
	return State{T: now + Time(parts/count), A: parts % count}
}
