package limit

import "slices"

// Convert carries a State from one limit over to another: what was used stays used under the new numbers. Between
// limits of one shape the result is exact:
//
//   - fixed windows and calendars: the count stays, and the open window never ends earlier than it would have. A window
//     aligned to the epoch or to a calendar then ends with the new window or period that contains its last instant;
//   - a sliding log and sliding buckets: the hits stay at their instants, or as late as their bucket allows;
//   - token bucket and GCRA: the missing amount stays missing, including fractions of a unit, rounded up;
//   - weighted sliding windows of one Period: both windows stay;
//   - lifetime, unlimited and concurrency: the count stays. Of a tally, the part above zero stays, without its end.
//
// Between limits of two shapes everything used now counts as one hit at now, which rounds against the caller. Hits that
// no longer counted under old do not come back with a longer Period.
func Convert(old Limit, s State, new Limit, now Time) State {
	if old.Equal(&new) {
		return s
	}
	s = counterOf(old, now).settle(old, s, now)
	c := counterOf(new, now)
	switch {
	case old.hasWindow() && new.hasWindow():
		return convertWindow(old, s, new, now)
	case old.isLog() && new.isLog():
		return convertLog(old, s, new, now)
	case old.hasRate() && new.hasRate():
		return convertRate(old, s, new, now)
	case old.Algorithm == SlidingWindow && new.Algorithm == SlidingWindow && old.Period == new.Period:
		return s
	}
	used := usedForConvert(old, s, now)
	if used == 0 {
		return State{}
	}
	return c.add(new, c.settle(new, State{}, now), min(used, maxUnits), now)
}

// Continues reports whether units taken under old can be given back to a State that Convert has carried over to l. If
// so, the State can tell them from units that it did not count: an open window knows when it began, a log knows its
// instants, and every other State keeps its algorithm and its rate. If not, units taken under old have no place in the
// State, and the caller must not refund them.
func (l *Limit) Continues(old *Limit) bool {
	switch {
	case old.hasWindow() && l.hasWindow():
		return true
	case l.isLog():
		return old.Algorithm == l.Algorithm && old.Bucket == l.Bucket
	}
	same := *old
	same.Quota, same.Initial = l.Quota, l.Initial
	return same == *l
}

// usedForConvert leaves out the tokens that a never-used bucket does not hold yet, since they were not spent, and the
// units of unknown holds, which end without being given back.
func usedForConvert(l Limit, s State, now Time) uint64 {
	switch {
	case l.Algorithm == TokenBucket && neverUsed(l, s):
		return 0
	case l.Algorithm == Concurrency:
		return s.A
	}
	return counterOf(l, now).status(l, s, now).Used
}

// convertWindow remembers when the open window began, so that units taken in it can still be given back.
func convertWindow(old Limit, s State, new Limit, now Time) State {
	if s.T == 0 {
		return s
	}
	start := windowStart(old, s, now)
	switch new.Algorithm {
	case FixedWindow:
		s.T = floor(s.T-1, new.Period) + Time(new.Period)
	case FixedWindowFirstHit:
		s.T = max(s.T, start+Time(new.Period))
	case Calendar:
		_, s.T = new.Cycle.Period(s.T - 1)
	}
	s.B = uint64(max(1, start))
	if new.Algorithm != Calendar && start == s.T-Time(new.Period) {
		s.B = 0
	}
	return s
}

// convertLog puts each hit into the new bucket of the latest instant that it may have had: the end of its old bucket,
// or now. Hits that meet become one.
func convertLog(old Limit, s State, new Limit, now Time) State {
	if s.B == 0 {
		return State{}
	}
	hits := make([]Point, 0, len(s.Points)+1)
	for _, p := range append(slices.Clip(s.Points), Point{At: s.T, Units: s.A}) {
		if old.Bucket > 0 && old.Bucket != new.Bucket {
			p.At = min(p.At+Time(old.Bucket)-1, now)
		}
		if new.Bucket > 0 {
			p.At = floor(p.At, new.Bucket)
		}
		if last := len(hits) - 1; last >= 0 && hits[last].At >= p.At {
			hits[last].Units = sum(hits[last].Units, p.Units)
		} else {
			hits = append(hits, p)
		}
	}
	newest := hits[len(hits)-1]
	converted := State{T: newest.At, A: newest.Units, B: s.B, Points: hits[:len(hits)-1]}
	return counterOf(new, now).settle(new, converted, now)
}

// convertRate converts the missing parts. If nothing is missing, and the old State does not tell whether it was used,
// as of GCRA or of a bucket with Initial = Quota, the new bucket counts as never used.
func convertRate(old Limit, s State, new Limit, now Time) State {
	missing := s.A
	if old.Algorithm == GCRA {
		missing = untilArrival(old, s, now)
	} else if neverUsed(old, s) {
		return State{}
	}
	_, oldPer := old.rate()
	_, newPer := new.rate()
	missing = mulDivUp(missing, newPer, oldPer, maxUnits)
	if new.Algorithm == GCRA {
		return arrival(new, missing, now)
	}
	if missing == 0 && s.B == 0 {
		return State{}
	}
	return bucketOf(new, missing, now)
}

// Scale changes what a State counts to a share of it, to / of, rounded up: at now, and at every later instant if
// nothing is counted until then. Hits stay at their instants, and an open window stays open. Neither to nor of may be
// 0.
func Scale(l Limit, s State, to, of uint64, now Time) State {
	c := counterOf(l, now)
	share := func(n uint64) uint64 { return mulDivUp(n, to, of, maxUnits) }
	if l.Algorithm == TokenBucket && neverUsed(l, s) {
		return State{}
	}
	switch s = c.settle(l, s, now); {
	case l.isLog():
		return scaleLog(s, share)
	case l.Algorithm == GCRA:
		return arrival(l, share(untilArrival(l, s, now)), now)
	case l.Algorithm == TokenBucket:
		return bucketOf(l, share(s.A), now)
	case l.Algorithm == SlidingWindow:
		s.B = share(s.B)
	}
	s.A = share(s.A)
	return s
}

// scaleLog reduces the newest hits together to the share of what they were, however many of them still count.
func scaleLog(s State, share func(uint64) uint64) State {
	units, scaled := s.A, share(s.A)
	points := make([]Point, 0, len(s.Points))
	for i := len(s.Points) - 1; i >= 0; i-- {
		p := s.Points[i]
		units = sum(units, p.Units)
		if more := share(units) - scaled; more > 0 {
			points = append(points, Point{At: p.At, Units: more})
			scaled += more
		}
	}
	slices.Reverse(points)
	return State{T: s.T, A: share(s.A), B: scaled, Points: points}
}
