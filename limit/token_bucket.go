package limit

// tokenBucket holds at most Quota tokens, and Count of them come back every Period, continuously. A request is
// admitted iff its cost is there. A bucket never used holds Initial tokens, and begins to fill with the first request it
// admits: a denial changes nothing, so it cannot begin anything.
//
// State: A is how many parts of tokens were missing at T (rate.go), so that the zero State is a full bucket. Where
// Initial is less than Quota, B is 1 once the bucket was used: full is not the same as never used then, and such a
// State is never forgotten.
//
// A refund puts tokens back, and what is above Quota is lost, as with those that come back by themselves.
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

func (tokenBucket) refund(l Limit, s State, units uint64, _, now Time) State {
	if neverUsed(l, s) {
		return State{}
	}
	_, per := l.rate()
	return bucketOf(l, less(s.A, product(units, per)), now)
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

// bucketOf is a used bucket in which some parts are missing at now.
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
