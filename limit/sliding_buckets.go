package limit

// slidingBuckets counts the current bucket and the Period/Bucket - 1 before it; buckets are aligned to the Unix epoch.
// This is a sliding log that remembers only the bucket of each hit. The bucket that begins at b counts exactly while
// now < b + Period, since Bucket divides Period.
//
// State: as slidingLog's, with the beginnings of buckets as instants. Points has one entry for each bucket that counted
// anything, so a quiet key stays small, and at most one Point is added per bucket.
type slidingBuckets struct{ slidingLog }

func (b slidingBuckets) add(l Limit, s State, units uint64, now Time) State {
	return b.slidingLog.add(l, s, units, floor(now, l.Bucket))
}

func (b slidingBuckets) refund(l Limit, s State, units uint64, taken, now Time) State {
	return b.slidingLog.refund(l, s, units, floor(taken, l.Bucket), now)
}

func (slidingBuckets) full(l Limit, found State, f Full) State {
	return oneHit(max(l.Quota, found.B), floor(f.end(), l.Bucket))
}

func (b slidingBuckets) stillCounts(l Limit, s State, taken, now Time) bool {
	return b.slidingLog.stillCounts(l, s, floor(taken, l.Bucket), now)
}
