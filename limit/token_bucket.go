package limit

// tokenBucket holds at most Quota tokens, and Count of them come back every Period, continuously. A request is admitted
// iff its cost is available. A never-used bucket holds Initial tokens, and begins to fill with the first request it
// admits. A denial changes nothing, so it cannot begin anything.
//
// State: A is the parts of tokens that were missing at T (rate.go), so the zero State is a full bucket. Where Initial
// is less than Quota, B is 1 once the bucket has been used. A full bucket then differs from a never-used one, so such a
// State is never forgotten. B is 2 if it is not known whether the bucket has been used (Full): once Initial tokens have
// come back, it counts as never used, and the next admitted request makes it a used one.
//
// A refund puts back the tokens that have not come back on their own since they were taken.
type tokenBucket struct{}

// settle makes a never-used bucket show the tokens above Initial as missing. Its B stays 0, so it is still never used.
func (tokenBucket) settle(l Limit, s State, now Time) State {
	count, per := l.rate()
	if neverUsed(l, s) {
		return State{T: now, A: (l.Quota - l.Initial) * per}
	}
	missing := less(s.A, product(uint64(max(0, now-s.T)), count)) // if nothing was spent
	if s.B != perhapsUsed {
		return bucketOf(l, missing, now)
	}
	if unused := (l.Quota - l.Initial) * per; missing <= unused {
		return State{T: now, A: unused}
	}
	return State{T: now, A: missing, B: perhapsUsed}
}

// wait is Never if waiting may not help: a never-used bucket does not fill, and a perhaps used one is only certain to
// fill to Initial.
func (tokenBucket) wait(l Limit, s State, cost uint64, _ Time) Span {
	wait := waitUntilFits(l, s.A, cost)
	if wait != 0 && (neverUsed(l, s) || s.B == perhapsUsed && cost > l.Initial) {
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
	} else if s.B == perhapsUsed {
		v.ResetAt = perhapsUsedUntil(l, s)
	}
	return v
}

func (tokenBucket) forgetAt(l Limit, s State) Time {
	switch {
	case s.B == perhapsUsed:
		return perhapsUsedUntil(l, s)
	case s.B != 0:
		return Forever
	case s.A == 0:
		return 0
	}
	count, _ := l.rate()
	return s.T + Time(divUp(s.A, count))
}

func (tokenBucket) full(l Limit, found State, f Full) State {
	if neverUsed(l, found) {
		return State{T: f.At, A: f.missing(l), B: perhapsUsed}
	}
	return bucketOf(l, max(f.missing(l), found.A), f.At)
}

// perhapsUsed is the B of a bucket that may or may not have been used.
const perhapsUsed = 2

// perhapsUsedUntil returns when such a bucket has its Initial tokens again.
func perhapsUsedUntil(l Limit, s State) Time {
	count, per := l.rate()
	return s.T + Time(divUp(less(s.A, (l.Quota-l.Initial)*per), count))
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
