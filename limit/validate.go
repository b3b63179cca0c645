package limit

import "fmt"

// The largest numbers of a Limit and its requests. They keep every level within 62 bits and every computed instant
// within 63.
const (
	MaxQuota    = 1 << 53                                // units; also the largest Count
	MaxCost     = 1 << 40                                // units of one request
	MaxPeriod   = Span(100 * 366 * 24 * 3600 * 1000_000) // 100 years
	MaxTime     = Time(1 << 61)                          // 73,000 years after 1970
	MaxBuckets  = 10_000                                 // buckets in the period of a SlidingBuckets limit
	MaxLogQuota = 10_000                                 // quota of a SlidingLog limit, which remembers every hit
)

// FieldError names the invalid number of a Limit and the reason. It is immutable.
type FieldError struct {
	// Field is the name in a policies file: quota, period, per, refill, rate, bucket, initial, unit, every, time_zone,
	// anchor_day, week_start; or algorithm.
	Field   string
	Message string // what is wrong and what would be right
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Validate returns a *FieldError for the first number that this package cannot count with exactly. A number that the
// algorithm does not use must be 0, so that equal limits are equal values.
func (l Limit) Validate() error {
	if !l.Algorithm.known() {
		return wrong("algorithm", "%d is not an algorithm", l.Algorithm)
	}
	for _, valid := range limitChecks {
		if err := valid(l); err != nil {
			return err
		}
	}
	return nil
}

// limitChecks run in order: a later check may divide by a number that an earlier one has checked.
var limitChecks = [...]func(Limit) error{
	Limit.validQuota, Limit.validPeriod, Limit.validCount, Limit.validBucket, Limit.validInitial, Limit.validCycle,
}

func (l Limit) validQuota() error {
	switch {
	case l.Algorithm == Unlimited && l.Quota != 0:
		return wrong("quota", "%d given, but an unlimited limit has none", l.Quota)
	case l.Algorithm == Unlimited:
		return nil
	case l.Algorithm == SlidingLog && l.Quota > MaxLogQuota:
		return wrong("quota", "%d is more than the %d hits a sliding log can remember; "+
			"use a sliding window with buckets",
			l.Quota, MaxLogQuota)
	case l.Quota > MaxQuota:
		return wrong("quota", "%d is more than %d", l.Quota, uint64(MaxQuota))
	}
	return nil
}

func (l Limit) validPeriod() error {
	field := "period"
	if l.hasRate() {
		field = "per"
	}
	switch why := l.whyNoPeriod(); {
	case why != "" && l.Period != 0:
		return wrong(field, "%d us given, but %s", l.Period, why)
	case why == "" && l.Period <= 0:
		return wrong(field, "must be at least 1 us, is %d us", l.Period)
	case l.Period > MaxPeriod:
		return wrong(field, "%d us is more than the 100 years (%d us) a period may last", l.Period, MaxPeriod)
	}
	return nil
}

func (l Limit) validCount() error {
	field := "refill"
	if l.Algorithm == GCRA {
		field = "rate"
	}
	switch {
	case !l.hasRate() && l.Count != 0:
		return wrong(field, "%d given, but only a token bucket and GCRA have a rate", l.Count)
	case !l.hasRate():
		return nil
	case l.Count == 0:
		return wrong(field, "must be at least 1: nothing would ever come back")
	case l.Count > MaxQuota:
		return wrong(field, "%d is more than %d", l.Count, uint64(MaxQuota))
	}
	if _, per := l.rate(); l.Quota > maxUnits/per {
		return wrong("quota", "%d is too much to count exactly at %d per %d us: at most %d",
			l.Quota, l.Count, l.Period, maxUnits/per)
	}
	return nil
}

func (l Limit) validBucket() error {
	switch {
	case l.Algorithm != SlidingBuckets && l.Bucket != 0:
		return wrong("bucket", "%d us given, but only a sliding window has buckets", l.Bucket)
	case l.Algorithm != SlidingBuckets:
		return nil
	case l.Bucket <= 0:
		return wrong("bucket", "must be at least 1 us, is %d us", l.Bucket)
	case l.Period%l.Bucket != 0:
		return wrong("bucket", "%d us does not divide the period of %d us", l.Bucket, l.Period)
	case l.Period/l.Bucket > MaxBuckets:
		return wrong("bucket", "%d us makes %d buckets of the period; at most %d",
			l.Bucket, l.Period/l.Bucket, MaxBuckets)
	}
	return nil
}

func (l Limit) validInitial() error {
	switch {
	case l.Algorithm != TokenBucket && l.Initial != 0:
		return wrong("initial", "%d given, but only a token bucket has a first level", l.Initial)
	case l.Algorithm != TokenBucket:
		return nil
	case l.Initial == 0 && l.Quota > 0:
		return wrong("initial", "must be at least 1: a bucket fills from the first request it admits, "+
			"and this admits none")
	case l.Initial > l.Quota:
		return wrong("initial", "%d is more than the quota of %d", l.Initial, l.Quota)
	}
	return nil
}

func (l Limit) validCycle() error {
	c := l.Cycle
	switch {
	case l.Algorithm != Calendar && c != nil:
		return wrong("unit", "given, but only a calendar has a unit")
	case l.Algorithm != Calendar:
		return nil
	case c == nil || c.Unit < Minute || c.Unit > Year:
		return wrong("unit", "must be minute, hour, day, week, month or year")
	case c.Every == 0:
		return wrong("every", "must be at least 1")
	case c.Every > maxEvery[c.Unit]:
		return wrong("every", "%d is more than the %d units that one period may have here", c.Every, maxEvery[c.Unit])
	case c.Zone == nil:
		return wrong("time_zone", "none was loaded; LoadZone(\"\") is UTC")
	}
	return c.validAnchors()
}

func (c *Cycle) validAnchors() error {
	hasDay := c.Unit == Month || c.Unit == Year
	switch {
	case !hasDay && c.AnchorDay != 0:
		return wrong("anchor_day", "%d given, but only months and years begin on a day of the month", c.AnchorDay)
	case hasDay && (c.AnchorDay < 1 || c.AnchorDay > 31):
		return wrong("anchor_day", "must be 1 to 31, is %d", c.AnchorDay)
	case c.Unit != Week && c.WeekStart != 0:
		return wrong("week_start", "%d given, but only weeks begin on a day of the week", c.WeekStart)
	case c.Unit == Week && (c.WeekStart < 1 || c.WeekStart > 7):
		return wrong("week_start", "must be 1 (Monday) to 7 (Sunday), is %d", c.WeekStart)
	}
	return nil
}

// whyNoPeriod returns why the algorithm has no Period, or "" if it has one.
func (l Limit) whyNoPeriod() string {
	switch l.Algorithm {
	case Lifetime, Unlimited:
		return "this limit never resets"
	case Calendar:
		return "the period of a calendar is its unit"
	case Concurrency:
		return "what holds have taken comes back when they end"
	}
	return ""
}
