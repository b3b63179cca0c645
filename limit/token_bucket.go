package limit

// tokenBucket holds at most Quota tokens, and Count of them come back every Period, continuously. A request is admitted
// iff its cost is available. A never-used bucket holds Initial tokens, and begins to fill with the first request it
// admits. A denial changes nothing, so it cannot begin anything.
//
// State: A is how many parts of tokens were missing at T (rate.go), so that the zero State is a full bucket. Where Initial
// is less than Quota, B is 1 once the bucket has been used. A full bucket then differs from a never-used one, so such a
// State is never forgotten.
//
// A refund puts back the tokens that have not come back on their own since they were taken.
type tokenBucket struct{}

func (tokenBucket) settle(l Limit, s State, now Time) State {
	count, per := l.rate()
	if neverUsed(l, s) {
		return State{T: now, A: (l.Quota - l.Initial) * per}
	}
	return bucketOf(l, missingAfter(s.A, count, now-s.T), now)
}

func (tokenBucket) wait(l Limit, s State, cost uint64, _ Time) Span {
	wait := waitUntilFits(l, s.A, cost)
	if wait != 0 && neverUsed(l, s) {
		return Never
	}
	return wait
}

func (tokenBucket) add(l Limit, s State, units uint64, now Time) State {
	_, per := l.rate()
	return bucketOf(l, sum(s.A, product(units, per)), now)
}

func (tokenBucket) refund(l Limit, s State, units uint64, taken, now Time) State {
	if neverUsed(l, s) {
		return State{}
	}
	return bucketOf(l, less(s.A, stillMissing(l, units, now-taken)), now)
}

func (tokenBucket) stillCounts(l Limit, s State, _, _ Time) bool { return s.A > 0 && !neverUsed(l, s) }

func (tokenBucket) status(l Limit, s State, now Time) Verdict {
	v := rateStatus(l, s.A, now)
	if neverUsed(l, s) {
		v.ResetAt = now
	}
	return v
}

func (tokenBucket) forgetAt(l Limit, s State) Time {
	switch {
	case s.B != 0:
		return Forever
	case s.A == 0:
		return 0
	}
	count, _ := l.rate()
	return s.T + Time(divUp(s.A, count))
}

// bucketOf returns a used bucket with missing parts missing at now.
func bucketOf(l Limit, missing uint64, now Time) State {
	var s State
	if missing > 0 {
		s.T, s.A = now, missing
	}
	if l.Initial < l.Quota {
		s.B = 1
	}
	return s
}

func neverUsed(l Limit, s State) bool { return l.Initial < l.Quota && s.B == 0 }
