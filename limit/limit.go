package limit

import "math"

// Time is an instant in microseconds since the Unix epoch. In a running shard it is shard time, which is monotonic and
// stamped by the owner. It is never the caller's clock.
type Time int64

// Span is a length of time in microseconds.
type Span int64

const (
	// Never, as a Verdict's RetryAfter, means that no wait helps.
	Never Span = -1
	// Forever, as a result of ForgetAt, means that the state must be kept.
	Forever Time = math.MaxInt64
)

// Longer returns the wait that satisfies both; Never is longer than any other.
func Longer(a, b Span) Span {
	if a == Never || b == Never {
		return Never
	}
	return max(a, b)
}

// Algorithm is how a limit counts. Its numbers are stored in logs and snapshots: append new ones, never renumber.
type Algorithm uint8

// The algorithms.
const (
	FixedWindow         Algorithm = 1  // windows aligned to the Unix epoch: floor(now / Period)
	FixedWindowFirstHit Algorithm = 2  // a window opens at the first hit after the last one ended
	SlidingWindow       Algorithm = 3  // two epoch-aligned windows, the previous one weighted by its remaining share
	SlidingBuckets      Algorithm = 4  // the current bucket and the Period/Bucket - 1 before it
	SlidingLog          Algorithm = 5  // every hit is remembered: a hit at t counts while now < t + Period
	TokenBucket         Algorithm = 6  // at most Quota tokens; Count of them come back every Period, continuously
	GCRA                Algorithm = 7  // theoretical arrival times; from rest exactly Quota at once
	Lifetime            Algorithm = 8  // never resets
	Unlimited           Algorithm = 9  // counted, never denied
	Calendar            Algorithm = 10 // a Cycle of a time zone's calendar
	Concurrency         Algorithm = 11 // units that holds have reserved and not given back yet
)

// Limit is the numbers of one rule. It is small enough to be stored beside its State and to be passed in registers, so
// the part that only a Calendar has is behind a pointer. Compare two Limits with Equal.
type Limit struct {
	Algorithm Algorithm
	// Quota is in units: the capacity of a token bucket, the burst of GCRA. 0 admits nothing. It must be 0 for
	// Unlimited, which has no quota.
	Quota   uint64
	Period  Span   // length of the window; TokenBucket and GCRA: the span in which Count units come back
	Count   uint64 // TokenBucket: refill; GCRA: rate; else 0
	Bucket  Span   // SlidingBuckets: width of one bucket, a divisor of Period; else 0
	Initial uint64 // TokenBucket: tokens in a never-used bucket, at most Quota (= Quota for a full bucket); else 0
	Cycle   *Cycle // Calendar: its periods, immutable and possibly shared; else nil
}

// Equal reports whether two limits have the same numbers, including those of their Cycles. It takes pointers because it
// runs for every limit of every decision and should copy neither.
func (l *Limit) Equal(other *Limit) bool {
	return *l == *other || l.equalBehind(other)
}

// equalBehind compares two limits that differ at least in their pointers.
func (l *Limit) equalBehind(other *Limit) bool {
	if l.Cycle == nil || other.Cycle == nil {
		return false
	}
	same := *l
	same.Cycle = other.Cycle
	return same == *other && l.Cycle.equal(other.Cycle)
}

// Without returns the limit with units set aside, as for a lease: under it Take, Peek and Status answer as if that many
// more units were used that do not come back. A bucket does not refill into them. The State that Take makes is one of
// l, and contains nothing of them. Units above the quota count as the quota. Add and Convert need l itself.
//
// What holds for a bucket: let m be missing of l, and u set aside. Of units that are spent of u in the meantime, the
// real bucket has them missing at once, and gets some back. As long as they are added to m at the end, and not before,
// m + u is never less than what is really missing and what may still be spent of u.
func (l Limit) Without(units uint64) Limit {
	l.Quota = less(l.Quota, units)
	l.Initial = less(l.Initial, units)
	return l
}

// hasWindow reports whether an open State ends at T as a whole.
func (l Limit) hasWindow() bool {
	return l.Algorithm == FixedWindow || l.Algorithm == FixedWindowFirstHit || l.Algorithm == Calendar
}

func (l Limit) isLog() bool { return l.Algorithm == SlidingLog || l.Algorithm == SlidingBuckets }

func (l Limit) hasRate() bool { return l.Algorithm == TokenBucket || l.Algorithm == GCRA }

// State is the memory of one limit for one key. The zero State is a key at rest (never seen). A State is a value: no
// function of this package changes a State it was given, nor its Points.
//
// The meaning of the fields depends on the algorithm: see its file.
type State struct {
	T      Time    // an instant, possibly after MaxTime
	A, B   uint64  // units, parts of them (rate.go), an instant, or flags: at most 2^62
	Points []Point // of logs and buckets only: instants before T, oldest first; other States may share the array
}

// Point is a number of units counted at one instant (SlidingLog) or in one bucket (SlidingBuckets).
type Point struct {
	At    Time
	Units uint64
}

// Verdict is the answer of a limit about one request at one instant.
type Verdict struct {
	Allowed bool // of Add: the total is within the quota; of Status: always true
	// Used is after the request if it was counted. A weighted window rounds it up; for buckets and GCRA it is Quota -
	// Remaining.
	Used      uint64
	Remaining uint64 // Used + Remaining = Quota while Used <= Quota, else 0; rounded down by buckets and GCRA
	// WindowStart is the beginning of the open window, or of the one that a hit at now would open. It is 0 for an
	// algorithm that has no such window, and for FixedWindowFirstHit while none is open.
	WindowStart Time
	// ResetAt is the first instant at which nothing counted so far counts any longer: now if nothing does; 0 means
	// never.
	ResetAt Time
	// RetryAfter is the exact wait of a denial until this request would be admitted if no other request spent, or
	// Never; 0 when allowed.
	RetryAfter Span
}
