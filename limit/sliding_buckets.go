package limit

// slidingBuckets counts the current bucket and the Period/Bucket - 1 before it; buckets are aligned to the Unix epoch.
// That is a sliding log which remembers of a hit only in which bucket it fell: the bucket that begins at b is one of
// those counted exactly while now < b + Period, since Bucket divides Period.
//
// State: as slidingLog's, with the beginnings of buckets for instants. Points has one entry for each bucket that counted
// anything, so a quiet key stays small, and a Point is added once in the time of one bucket.
type slidingBuckets struct{ slidingLog }

func (b slidingBuckets) add(l Limit, s State, units uint64, now Time) State {
	return b.slidingLog.add(l, s, units, floor(now, l.Bucket))
}

func (b slidingBuckets) refund(l Limit, s State, units uint64, taken, now Time) State {
	return b.slidingLog.refund(l, s, units, floor(taken, l.Bucket), now)
}

func (b slidingBuckets) stillCounts(l Limit, s State, taken, now Time) bool {
	return b.slidingLog.stillCounts(l, s, floor(taken, l.Bucket), now)
}
