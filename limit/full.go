package limit

// Full marks usage as unknown, as after a restore from a backup: before At, as much may have been taken as the limit
// could have admitted. It is no State, because the numbers of a limit may differ from request to request: a key has the
// numbers of its tier. So a State is made from the mark for the limit that a request resolves.
//
// If no more was admitted before At than the limit allows, a key that continues from State or With admits, together
// with what was taken before, no more than the limit allows at any instant. Lifetime and Unlimited are exceptions: the
// mark does not apply to them, since a limit that never resets would be full forever.
type Full struct {
	At   Time // everything from this instant on is known
	Hold Span // a hold that was taken before At has ended at At + Hold
	// Late is how long after At units may still be spent that are unknown too, as those of a lease. Windows, logs and
	// buckets are full as of At + Late.
	Late Span
}

// end returns the instant as of which a limit without a rate is full.
func (f Full) end() Time { return f.At + Time(f.Late) }

// missing returns the parts that are missing of a bucket at At: it is empty until At + Late.
func (f Full) missing(l Limit) uint64 {
	count, per := l.rate()
	return sum(l.Quota*per, product(uint64(f.Late), count))
}

// State returns the state at now, which is not before At, of a key with unknown usage. It is the zero State once all
// that may have been taken before At no longer counts:
//
//   - FixedWindow, Calendar: the quota is used until the window of At ends;
//   - FixedWindowFirstHit, SlidingLog: until At + Period;
//   - SlidingWindow, SlidingBuckets: as if the quota had been taken in the window or bucket of At;
//   - TokenBucket, GCRA: nothing is left at At. A bucket that begins with Initial tokens is at rest again when it has
//     those;
//   - Concurrency: until At + Hold;
//   - Lifetime, Unlimited: the zero State.
func (f Full) State(l Limit, now Time) State {
	s := f.With(l, State{})
	if now = max(now, f.At); ForgetAt(l, s) <= now {
		return State{}
	}
	return counterOf(l, now).settle(l, s, now)
}

// With returns the state at At of a key that was found in the given state, to which any usage may have been added
// since. A debt or an open window that outlasts the mark remains.
func (f Full) With(l Limit, found State) State {
	c := counterOf(l, f.At)
	if ForgetAt(l, found) <= f.At {
		found = State{}
	}
	if l.Quota == 0 {
		return found // it admits nothing, so nothing was taken
	}
	return c.full(l, c.settle(l, found, f.At), f)
}

// Atop returns the state at now of a key that has counted s since At under other numbers and was converted to l. All
// units that count in s count as one hit at now, in addition to the unknown usage. A token bucket or GCRA is empty
// until the mark has ended: units that came back under the other numbers may not have come back under these.
func (f Full) Atop(l Limit, s State, now Time) State {
	full := f.State(l, now)
	if full.T == 0 {
		return s
	}
	c := counterOf(l, now)
	s = c.settle(l, s, now)
	switch used := usedForConvert(l, s, now); {
	case l.hasRate():
		return c.full(l, s, Full{At: now, Late: Span(max(0, f.end()-now))})
	case used > 0:
		return c.add(l, full, min(used, maxUnits), now)
	}
	return full
}
