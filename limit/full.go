package limit

// Full is a mark on usage that nobody knows any more, as after a restore from a backup: what was taken before At may be
// all that the limit could have admitted. It is no State, because the numbers of a limit may differ from request to
// request: a key has the numbers of its tier. So a State is made from the mark for the limit that a request resolves.
//
// Where nothing more was admitted before At than the limit allows, a key that continues from State or With admits, together
// with what was taken before, no more than the limit allows at any instant. Lifetime and Unlimited are exceptions: for
// these the mark says nothing, since a limit that never resets would be full forever.
type Full struct {
	At   Time // everything from this instant on is known
	Hold Span // a hold that was taken before At has ended at At + Hold
}

// State returns the state of a key of which nothing is known, at now, which is not before At. It is the zero State once
// all that may have been taken before At no longer counts:
//
//   - FixedWindow, Calendar: the quota is used until the window of At ends;
//   - FixedWindowFirstHit, SlidingLog: until At + Period;
//   - SlidingWindow, SlidingBuckets: as if the quota had been taken in the window or bucket of At;
//   - TokenBucket, GCRA: nothing is left at At. A bucket that begins with Initial tokens is at rest again when it has those;
//   - Concurrency: until At + Hold;
//   - Lifetime, Unlimited: the zero State.
func (f Full) State(l Limit, now Time) State {
	s := f.With(l, State{})
	if now = max(now, f.At); ForgetAt(l, s) <= now {
		return State{}
	}
	return counterOf(l, now).settle(l, s, now)
}

// With returns the state at At of a key that was found with this state, which may have been anything since. A debt or an
// open window that outlasts the mark remains.
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

// Atop returns the state of a key at now that has counted s since At under other numbers, and was converted to l. All that
// counts in s counts as one hit at now, besides what is not known. A token bucket or GCRA is empty until the mark has ended:
// what came back under the other numbers may not have come back under these.
func (f Full) Atop(l Limit, s State, now Time) State {
	full := f.State(l, now)
	if full.T == 0 {
		return s
	}
	c := counterOf(l, now)
	s = c.settle(l, s, now)
	switch used := usedForConvert(l, s, now); {
	case l.hasRate():
		return c.full(l, s, Full{At: now})
	case used > 0:
		return c.add(l, full, min(used, maxUnits), now)
	}
	return full
}
