package limit_test

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

// Golden vectors: observed results of the earlier limiters, which must be reproduced here. The row numbers only
// distinguish the rows.

// Row 19: consume(state, now, capacity 10, refill 4 a second) answers retryAfterMs = ceil(deficit / rate * 1000). The
// values were computed with the seed's formula where its floating point is exact: quarters of a second.
func TestSeedRow19ConsumeToTheMillisecond(t *testing.T) {
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
		{4062, 1, false, 188}, // 0.752 of a token is missing: 188 ms
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

// Rows 33 and 20: whole seconds until the window ends, rounded up, and never 0 on a denial: W - (now % W).
func TestSeedRow33RetryAfterInWholeSeconds(t *testing.T) {
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

// Row 21: the free tier's bucket, 5 tokens and 2 a second. The remaining units are rounded down. An idle bucket is
// forgotten as soon as it is full, 2.5 s after it was emptied.
func TestSeedRow21BurstLimitOfTheFreeTier(t *testing.T) {
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

// Rows 22, 31 and 32: 24 hours in buckets of a minute count the current minute and the 1,439 before it, even when now
// is exactly on a minute, and deny when the quota is used.
func TestSeedRow22TheLastDayByMinutes(t *testing.T) {
	l, s := fullDay(t)
	lastOfDay := noon + limit.Time(day) - 1
	if v := limit.Peek(l, s, 1, lastOfDay); v.Used != 1440 || v.Allowed || v.RetryAfter != 1 {
		t.Errorf("at the end of the day: %+v", v)
	}
	// On the minute the oldest one leaves; the original limiter would still count it.
	if v := limit.Peek(l, s, 1, lastOfDay+1); v.Used != 1439 || !v.Allowed {
		t.Errorf("a day after the first minute: %+v", v)
	}
}

// A full day's state stays small, and that of a few minutes is proportionally smaller.
func TestSeedRow31ADayByMinutesIsSmall(t *testing.T) {
	_, s := fullDay(t)
	if size := len(limit.AppendState(nil, s)); len(s.Points) != 1439 || size > 5800 {
		t.Errorf("a full day is %d points in %d bytes", len(s.Points), size)
	}
	sparse := limit.State{}
	for i := range limit.Time(5) {
		sparse, _ = limit.Take(limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 9, Period: day, Bucket: minute},
			sparse, 1, noon+i*limit.Time(hour))
	}
	if size := len(limit.AppendState(nil, sparse)); size > 30 {
		t.Errorf("five minutes of a day are %d bytes", size)
	}
}

// Row 32: a calendar day admits twice the quota around midnight, and the last 24 hours do not.
func TestSeedRow32TheLastDayAndTheCalendarDay(t *testing.T) {
	midnight := noon + limit.Time(day)
	calendarDay, lastDay := calendarOf(200, limit.Day, "UTC"), limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 200,
		Period: day, Bucket: minute}
	for _, tt := range []struct {
		l       limit.Limit
		allowed bool
	}{{calendarDay, true}, {lastDay, false}} {
		s, _ := limit.Take(tt.l, limit.State{}, 200, midnight-1)
		if v := limit.Peek(tt.l, s, 200, midnight); v.Allowed != tt.allowed {
			t.Errorf("%+v: %+v", tt.l, v)
		}
	}
}

// fullDay returns a limit and its State after one hit in each minute of a day that begins at noon.
func fullDay(t *testing.T) (limit.Limit, limit.State) {
	t.Helper()
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
	return l, s
}

// Row 25: how many probes one operator may commission. The quota never comes back on its own. A decommissioned probe
// gives its unit back, however long ago it was taken. No more units come back than were taken.
func TestSeedRow25ALifetimeQuotaIsReleased(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.Lifetime, Quota: 3}, noon)
	c.take(2, "allowed 2/1")
	c.after(3*365*day).take(2, "denied 2/1 forever")
	c.refund(1, 0, "allowed 1/2")
	c.take(2, "allowed 3/0")
	c.refund(3, 3*365*day, "allowed 0/3 reset 94608000000000")
	c.refund(1, 0, "allowed 0/3 reset 94608000000000")
}

// Row 12: a window is live while its end is later than now. At equality the next begins, with the full window before
// it.
func TestSeedRow12TheNextWindowBeginsAtEquality(t *testing.T) {
	for _, l := range []limit.Limit{
		{Algorithm: limit.FixedWindow, Quota: 1, Period: minute},
		{Algorithm: limit.FixedWindowFirstHit, Quota: 1, Period: minute},
		calendarOf(1, limit.Minute, "America/New_York"),
	} {
		s, v := limit.Take(l, limit.State{}, 1, noon)
		resetAt := v.ResetAt
		if _, v := limit.Take(l, s, 1, resetAt-1); v.Allowed || v.RetryAfter != 1 || v.ResetAt != resetAt {
			t.Errorf("%+v one microsecond before: %+v", l, v)
		}
		if _, v := limit.Take(l, s, 1, resetAt); !v.Allowed || v.Used != 1 || v.WindowStart != resetAt ||
			v.ResetAt != resetAt+limit.Time(minute) {
			t.Errorf("%+v at equality: %+v", l, v)
		}
		if limit.ForgetAt(l, s) != resetAt {
			t.Errorf("%+v is forgotten at %d", l, limit.ForgetAt(l, s))
		}
	}
}

// Row 39: the well-known numbers: twice the quota in two seconds around the edge, 1000 an hour, the 25 % mark, and the
// step from 99 to 100, which two requests cannot both take.
func TestSeedRow39TheNumbersThatPeopleRemember(t *testing.T) {
	window := begin(t, limit.Limit{Algorithm: limit.FixedWindow, Quota: 1000, Period: hour}, noon)
	window.after(hour-second).take(1000, "allowed 1000/0 reset 3600000000")
	window.after(hour).take(1000, "allowed 1000/0 reset 7200000000")
	window.after(hour+second).take(1, "denied 1000/0 for 3599000000 reset 7200000000")

	weighted := begin(t, limit.Limit{Algorithm: limit.SlidingWindow, Quota: 1000, Period: hour}, noon)
	weighted.take(1000, "allowed 1000/0 reset 7200000000")
	weighted.after(hour+hour/4).take(251, "denied 750/250 for 3600000 reset 7200000000")
	weighted.take(250, "allowed 1000/0 reset 10800000000")

	one := begin(t, limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: minute}, noon)
	one.take(99, "allowed 99/1 reset 60000000")
	one.take(1, "allowed 100/0 reset 60000000")
	one.take(1, "denied 100/0 for 60000000 reset 60000000")
}

// Row 26: a window number and one integer; at the edge the count starts again.
func TestSeedRow26FixedWindowNumber(t *testing.T) {
	l := limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: minute}
	s, _ := limit.Take(l, limit.State{}, 100, noon+limit.Time(minute)-1)
	_, v := limit.Take(l, s, 100, noon+limit.Time(minute))
	if !v.Allowed || v.WindowStart/limit.Time(minute) != noon/limit.Time(minute)+1 {
		t.Errorf("%+v", v)
	}
	// Row 27: so twice the quota passes within a microsecond of the edge; the weighted window prevents this.
	l.Algorithm = limit.SlidingWindow
	s, _ = limit.Take(l, limit.State{}, 100, noon+limit.Time(minute)-1)
	if v := limit.Peek(l, s, 1, noon+limit.Time(minute)); v.Allowed || v.RetryAfter != 600_000 {
		t.Errorf("%+v", v)
	}
}

// Row 28: at the 25 % mark the previous window counts 75 %: current + previous * (1 - elapsed fraction).
func TestSeedRow28WeightedCount(t *testing.T) {
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
func TestSeedRow29LogIsBounded(t *testing.T) {
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
func TestSeedRow30BucketIsTwoNumbers(t *testing.T) {
	l := limit.Limit{Algorithm: limit.TokenBucket, Quota: 30, Period: second, Count: 10, Initial: 30}
	s, _ := limit.Take(l, limit.State{}, 30, noon)
	if s.B != 0 || s.Points != nil || s.T != noon || s.A != 30*100_000 { // 1/10 s is 100,000 parts of a token
		t.Errorf("%+v", s)
	}
	if v := limit.Status(l, s, noon+limit.Time(minute)); v.Remaining != 30 {
		t.Errorf("%+v", v)
	}
}
