package limit

import "math"

// Time is an instant in microseconds since the Unix epoch. In a running shard it is shard time: monotone and
// stamped by the owner, never the caller's clock.
type Time int64

// Span is a length of time in microseconds.
type Span int64

const (
	// Never, as a Verdict's RetryAfter, says that no amount of waiting helps.
	Never Span = -1
	// Forever, as an answer of ForgetAt, says that the state must be kept.
	Forever Time = math.MaxInt64
)

// Algorithm names how a limit counts. The numbers stand in logs and snapshots: append, never renumber.
type Algorithm uint8

// The algorithms.
const (
	FixedWindow         Algorithm = 1  // windows aligned to the Unix epoch: floor(now / Period)
	FixedWindowFirstHit Algorithm = 2  // a window opens at the first hit after the last one ended
	SlidingWindow       Algorithm = 3  // two epoch-aligned windows, the previous one weighted by what is left of it
	SlidingBuckets      Algorithm = 4  // the current bucket and the Period/Bucket - 1 before it
	SlidingLog          Algorithm = 5  // every hit remembered: a hit at t counts while now < t + Period
	TokenBucket         Algorithm = 6  // Quota tokens at most, Count of them back every Period, continuously
	GCRA                Algorithm = 7  // theoretical arrival times; from rest exactly Quota at once
	Lifetime            Algorithm = 8  // never resets
	Unlimited           Algorithm = 9  // counted, never denied
	Calendar            Algorithm = 10 // periods of a time zone's calendar: a Cycle
	Concurrency         Algorithm = 11 // what holds have reserved and not given back yet
)

// Limit is one rule, numbers only, and small enough to be stored beside the state it shaped and to be handed over in
// registers: what only a Calendar has is therefore behind a pointer. Equal compares two of them.
type Limit struct {
	Algorithm Algorithm
	Quota     uint64 // units; capacity of a token bucket, burst of GCRA; 0 for Unlimited
	Period    Span   // length of the window; for TokenBucket and GCRA the span in which Count units come back
	Count     uint64 // TokenBucket: refill; GCRA: rate; else 0
	Bucket    Span   // SlidingBuckets: width of one bucket, a divisor of Period; else 0
	Initial   uint64 // TokenBucket: tokens in a bucket never used before, at most Quota (a full bucket: = Quota); else 0
	Cycle     *Cycle // Calendar: its periods, which are never changed and may be shared; else nil
}

// Equal reports whether two limits have the same numbers, those of their Cycles too. It is asked of every limit of every
// decision, so it takes pointers and copies neither.
func (l *Limit) Equal(other *Limit) bool {
	return *l == *other || l.equalBehind(other)
}

// equalBehind is Equal of limits that may differ in nothing but the pointer.
func (l *Limit) equalBehind(other *Limit) bool {
	if l.Cycle == nil || other.Cycle == nil {
		return false
	}
	same := *l
	same.Cycle = other.Cycle
	return same == *other && l.Cycle.equal(other.Cycle)
}

// State is what one limit remembers of one key. The zero State is a key at rest (never seen). A State is a value:
// no function of this package changes one it was given, nor the Points it refers to.
//
// What the fields mean is each algorithm's own business and is written in its file.
type State struct {
	T      Time
	A, B   uint64
	Points []Point
}

// Point is a number of units counted at one instant (SlidingLog) or in one bucket (SlidingBuckets).
type Point struct {
	At    Time
	Units uint64
}

// Verdict is what a limit says of one request at one instant.
type Verdict struct {
	Allowed     bool
	Used        uint64 // after the request where it was counted; a weighted window rounds up, buckets and GCRA: Quota - Remaining
	Remaining   uint64 // Used + Remaining = Quota while Used <= Quota, else 0; buckets and GCRA round down
	WindowStart Time   // 0: the algorithm has no window, or none is open
	ResetAt     Time   // first instant at which nothing counted so far counts any more (now, when nothing does); 0: never
	RetryAfter  Span   // on a denial the exact wait until this same request would be admitted if nobody else spent; Never; 0 when allowed
}
