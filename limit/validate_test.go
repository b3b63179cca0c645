package limit_test

import (
	"errors"
	"testing"

	"github.com/stint-io/stint/limit"
)

func TestImpossibleNumbersAreRefusedByField(t *testing.T) {
	zone := mustLoad("Europe/London")
	const most = 1 << 62 / uint64(hour-1) // for a bucket with a rate that is already in lowest terms
	for _, tt := range []struct {
		field string
		l     limit.Limit
	}{
		{"algorithm", limit.Limit{}},
		{"algorithm", limit.Limit{Algorithm: 200, Quota: 1, Period: 1}},
		{"initial", limit.Limit{Algorithm: limit.TokenBucket, Period: minute, Count: 1, Initial: 1}},
		{"quota", limit.Limit{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota + 1, Period: minute}},
		{"quota", limit.Limit{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota + 1, Period: minute}},
		{"quota", limit.Limit{Algorithm: limit.Unlimited, Quota: 1}},
		{"quota", limit.Limit{Algorithm: limit.GCRA, Quota: most + 1, Period: hour - 1, Count: 1}},
		{"period", limit.Limit{Algorithm: limit.FixedWindow, Quota: 1}},
		{"period", limit.Limit{Algorithm: limit.SlidingWindow, Quota: 1, Period: -1}},
		{"period", limit.Limit{Algorithm: limit.SlidingLog, Quota: 1, Period: limit.MaxPeriod + 1}},
		{"period", limit.Limit{Algorithm: limit.Lifetime, Quota: 1, Period: minute}},
		{"period", limit.Limit{Algorithm: limit.Unlimited, Period: minute}},
		{"per", limit.Limit{Algorithm: limit.TokenBucket, Quota: 1, Count: 1, Initial: 1}},
		{"per", limit.Limit{Algorithm: limit.GCRA, Quota: 1, Count: 1, Period: -minute}},
		{"refill", limit.Limit{Algorithm: limit.TokenBucket, Quota: 1, Period: minute, Initial: 1}},
		{"refill", limit.Limit{Algorithm: limit.TokenBucket, Quota: 1, Period: minute, Count: limit.MaxQuota + 1,
			Initial: 1}},
		{"refill", limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: minute, Count: 1}},
		{"rate", limit.Limit{Algorithm: limit.GCRA, Quota: 1, Period: minute}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1, Period: minute}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1, Period: minute, Bucket: -second}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1, Period: minute, Bucket: 7 * second}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1, Period: minute, Bucket: 2 * minute}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1, Period: 10_001, Bucket: 1}},
		{"bucket", limit.Limit{Algorithm: limit.SlidingWindow, Quota: 1, Period: minute, Bucket: second}},
		{"initial", limit.Limit{Algorithm: limit.TokenBucket, Quota: 1, Period: minute, Count: 1}},
		{"initial", limit.Limit{Algorithm: limit.TokenBucket, Quota: 1, Period: minute, Count: 1, Initial: 2}},
		{"initial", limit.Limit{Algorithm: limit.GCRA, Quota: 1, Period: minute, Count: 1, Initial: 1}},
		{"quota", calendar(limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone}, func(l *limit.Limit) {
			l.Quota = limit.MaxQuota + 1
		})},
		{"period", calendar(limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone}, func(l *limit.Limit) {
			l.Period = day
		})},
		{"unit", calendar(limit.Cycle{Every: 1, Zone: zone}, nil)},
		{"unit", calendar(limit.Cycle{Unit: 7, Every: 1, Zone: zone}, nil)},
		{"unit", limit.Limit{Algorithm: limit.Calendar, Quota: 1}},
		{"unit", limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: day, Cycle: &limit.Cycle{Zone: zone}}},
		{"every", calendar(limit.Cycle{Unit: limit.Day, Zone: zone}, nil)},
		{"every", calendar(limit.Cycle{Unit: limit.Day, Every: 36_501, Zone: zone}, nil)},
		{"every", calendar(limit.Cycle{Unit: limit.Year, Every: 101, AnchorDay: 1, Zone: zone}, nil)},
		{"time_zone", calendar(limit.Cycle{Unit: limit.Day, Every: 1}, nil)},
		{"anchor_day", calendar(limit.Cycle{Unit: limit.Month, Every: 1, Zone: zone}, nil)},
		{"anchor_day", calendar(limit.Cycle{Unit: limit.Year, Every: 1, AnchorDay: 32, Zone: zone}, nil)},
		{"anchor_day", calendar(limit.Cycle{Unit: limit.Day, Every: 1, AnchorDay: 1, Zone: zone}, nil)},
		{"week_start", calendar(limit.Cycle{Unit: limit.Week, Every: 1, Zone: zone}, nil)},
		{"week_start", calendar(limit.Cycle{Unit: limit.Week, Every: 1, WeekStart: 8, Zone: zone}, nil)},
		{"week_start", calendar(limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 1, WeekStart: 1, Zone: zone}, nil)},
		{"period", limit.Limit{Algorithm: limit.Concurrency, Quota: 1, Period: minute}},
		{"quota", limit.Limit{Algorithm: limit.Concurrency, Quota: limit.MaxQuota + 1}},
	} {
		var wrong *limit.FieldError
		if err := tt.l.Validate(); !errors.As(err, &wrong) || wrong.Field != tt.field || wrong.Message == "" {
			t.Errorf("%+v: %v, want an error of %s", tt.l, err, tt.field)
		}
	}
}

// calendar returns a Calendar limit with the numbers of a Cycle, changed by wrong.
func calendar(c limit.Cycle, wrong func(*limit.Limit)) limit.Limit {
	l := limit.Limit{Algorithm: limit.Calendar, Quota: 1, Cycle: &c}
	if wrong != nil {
		wrong(&l)
	}
	return l
}

func TestTheLargestNumbersAreCountedExactly(t *testing.T) {
	for _, l := range []limit.Limit{
		{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: limit.MaxPeriod},
		{Algorithm: limit.SlidingWindow, Quota: limit.MaxQuota, Period: limit.MaxPeriod},
		{Algorithm: limit.SlidingBuckets, Quota: limit.MaxQuota, Period: 10_000 * hour, Bucket: hour},
		{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: limit.MaxPeriod},
		{Algorithm: limit.Calendar, Quota: limit.MaxQuota,
			Cycle: &limit.Cycle{Unit: limit.Year, Every: 100, AnchorDay: 31, Zone: mustLoad("Europe/London")}},
		{Algorithm: limit.GCRA, Quota: 1 << 62 / uint64(hour-1), Period: hour - 1, Count: 1},
		// A million a second reduces to one a microsecond.
		{Algorithm: limit.TokenBucket, Quota: limit.MaxQuota, Period: second, Count: 1_000_000,
			Initial: limit.MaxQuota},
	} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
			continue
		}
		var s limit.State
		left := l.Quota
		for left > 0 {
			cost := min(left, limit.MaxCost)
			var v limit.Verdict
			if s, v = limit.Take(l, s, cost, limit.MaxTime); !v.Allowed {
				t.Fatalf("%+v denies %d with %d left: %+v", l, cost, left, v)
			}
			left -= cost
		}
		if v := limit.Peek(l, s, 1, limit.MaxTime); v.Allowed || v.Used != l.Quota || v.RetryAfter <= 0 ||
			v.ResetAt <= limit.MaxTime {
			t.Errorf("%+v is full: %+v", l, v)
		}
	}
}
