package limit_test

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

// The golden vectors of SEEDS.md: what people saw of the systems they come from must come out here.

// Row 19: consume(state, now, capacity 10, refill 4 a second) answers retryAfterMs = ceil(deficit / rate * 1000). The
// values were computed with the seed's formula where its floating point is exact: quarters of a second.
func TestRow19ConsumeToTheMillisecond(t *testing.T) {
	l := limit.Limit{Algorithm: limit.TokenBucket, Quota: 10, Period: second, Count: 4, Initial: 10}
	var s limit.State
	for i, call := range []struct {
		ms           limit.Time
		cost         uint64
		allowed      bool
		retryAfterMs limit.Span
	}{
		{0, 10, true, 0},
		{0, 1, false, 250},
		{125, 1, false, 125},
		{125, 3, false, 625},
		{250, 1, true, 0},
		{250, 10, false, 2500},
		{1000, 3, true, 0},
		{1000, 1, false, 250},
		{1500, 2, true, 0},
		{4000, 10, true, 0},
		{4062, 1, false, 188}, // 0.752 of a token missing: 188 ms
		{9000, 11, false, -1},
	} {
		var v limit.Verdict
		s, v = limit.Take(l, s, call.cost, noon+call.ms*1000)
		ms := v.RetryAfter
		if ms > 0 {
			ms = (ms + 999) / 1000
		}
		if v.Allowed != call.allowed || ms != call.retryAfterMs {
			t.Errorf("call %d: %+v, retry after %d ms; want %+v", i, v, ms, call)
		}
	}
}

// Rows 20 and 33: whole seconds until the window ends, rounded up and never 0 on a denial: W - (now % W).
func TestRows20And33RetryAfterInWholeSeconds(t *testing.T) {
	l := limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: minute}
	for _, at := range []limit.Time{0, 1, 500_000, 1_000_000, 17_000_000, 59_000_000, 59_999_999} {
		s, _ := limit.Take(l, limit.State{}, 1, noon+at)
		_, v := limit.Take(l, s, 1, noon+at)
		got := (v.RetryAfter + second - 1) / second
		if want := limit.Span(60 - at/1_000_000); got != want || v.RetryAfter != minute-limit.Span(at) {
			t.Errorf("at %d us: %d s (%d us), want %d", at, got, v.RetryAfter, want)
		}
	}
}

// Row 21: the free tier's bucket, 5 tokens and 2 a second; what remains is rounded down; idle, it is forgotten as soon
// as it is full, 2.5 s after it was emptied.
func TestRow21BurstLimitOfTheFreeTier(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Period: second, Count: 2, Initial: 5}, noon)
	for _, want := range []string{"allowed 1/4 reset 500000", "allowed 2/3 reset 1000000", "allowed 3/2 reset 1500000",
		"allowed 4/1 reset 2000000", "allowed 5/0 reset 2500000", "denied 5/0 for 500000 reset 2500000"} {
		c.take(1, want)
	}
	c.after(499_999).look("allowed 5/0 reset 2500000")
	c.after(500_000).look("allowed 4/1 reset 2500000")
	if at := limit.ForgetAt(c.l, c.state); at != noon+2_500_000 {
		t.Errorf("forgotten %d us after noon", at-noon)
	}
}

// Rows 22, 31 and 32: 24 hours in buckets of a minute count the current minute and the 1,439 before it, also when now
// is exactly on a minute, and a full day's state stays small.
func TestRows22And31TheLastDayByMinutes(t *testing.T) {
	l := limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1440, Period: day, Bucket: minute}
	var s limit.State
	now := noon + limit.Time(30*second)
	for range 1440 {
		var v limit.Verdict
		if s, v = limit.Take(l, s, 1, now); !v.Allowed {
			t.Fatalf("denied at %d", now-noon)
		}
		now += limit.Time(minute)
	}
	lastOfDay := noon + limit.Time(day) - 1
	if v := limit.Peek(l, s, 1, lastOfDay); v.Used != 1440 || v.Allowed || v.RetryAfter != 1 {
		t.Errorf("at the end of the day: %+v", v)
	}
	// On the minute the oldest one leaves; the seed would still count it.
	if v := limit.Peek(l, s, 1, lastOfDay+1); v.Used != 1439 || !v.Allowed {
		t.Errorf("a day after the first minute: %+v", v)
	}
	if size := len(limit.AppendState(nil, s)); size > 5800 {
		t.Errorf("a full day takes %d bytes", size)
	}
}

// Row 26: a window number and one integer; at the edge the count is free again.
func TestRow26FixedWindowNumber(t *testing.T) {
	l := limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: minute}
	s, _ := limit.Take(l, limit.State{}, 100, noon+limit.Time(minute)-1)
	_, v := limit.Take(l, s, 100, noon+limit.Time(minute))
	if !v.Allowed || v.WindowStart/limit.Time(minute) != noon/limit.Time(minute)+1 {
		t.Errorf("%+v", v)
	}
	// Row 27: so twice the quota passes within a microsecond of the edge; the weighted window does not let it.
	l.Algorithm = limit.SlidingWindow
	s, _ = limit.Take(l, limit.State{}, 100, noon+limit.Time(minute)-1)
	if v := limit.Peek(l, s, 1, noon+limit.Time(minute)); v.Allowed || v.RetryAfter != 600_000 {
		t.Errorf("%+v", v)
	}
}

// Row 28: at the 25 % mark the previous window counts 75 %: current + previous * (1 - elapsed fraction).
func TestRow28WeightedCount(t *testing.T) {
	l := limit.Limit{Algorithm: limit.SlidingWindow, Quota: 1000, Period: hour}
	s, _ := limit.Take(l, limit.State{}, 100, noon)
	for _, at := range []struct {
		elapsed limit.Span
		used    uint64
	}{{0, 100}, {hour / 4, 75}, {hour / 2, 50}, {3 * hour / 4, 25}, {3*hour/4 + 1, 25}, {hour - 1, 1}, {hour, 0}} {
		if v := limit.Status(l, s, noon+limit.Time(hour+at.elapsed)); v.Used != at.used {
			t.Errorf("%d us into the next hour: used %d, want %d", at.elapsed, v.Used, at.used)
		}
	}
}

// Row 29: a sliding log is exact, and bounded by its quota.
func TestRow29LogIsBounded(t *testing.T) {
	l := limit.Limit{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: day}
	var s limit.State
	for i := range limit.Time(3 * limit.MaxLogQuota) {
		s, _ = limit.Take(l, s, 1, noon+i)
	}
	if len(s.Points) != limit.MaxLogQuota-1 {
		t.Errorf("%d points", len(s.Points))
	}
	for i := range limit.Time(1000) {
		s, _ = limit.Add(l, s, 1, noon+limit.Time(hour)+i)
	}
	v := limit.Status(l, s, noon+limit.Time(hour))
	if len(s.Points) > limit.MaxLogQuota || v.Used != limit.MaxLogQuota+1000 {
		t.Errorf("%d points hold %d units", len(s.Points), v.Used)
	}
}

// Row 30: a token bucket is two numbers and no timer.
func TestRow30BucketIsTwoNumbers(t *testing.T) {
	l := limit.Limit{Algorithm: limit.TokenBucket, Quota: 30, Period: second, Count: 10, Initial: 30}
	s, _ := limit.Take(l, limit.State{}, 30, noon)
	if s.B != 0 || s.Points != nil || s.T != noon || s.A != 30*100_000 { // 1/10 s is 100,000 parts of a token
		t.Errorf("%+v", s)
	}
	if v := limit.Status(l, s, noon+limit.Time(minute)); v.Remaining != 30 {
		t.Errorf("%+v", v)
	}
}
