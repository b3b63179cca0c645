package limit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stint-io/stint/limit"
)

func visitRoundTrip(t *testing.T, l limit.Limit) func(*rand.Rand, limit.State, limit.Verdict, uint64, limit.Time) {
	return func(_ *rand.Rand, s limit.State, _ limit.Verdict, _ uint64, now limit.Time) {
		back, rest, err := limit.DecodeState(limit.AppendState(nil, s))
		if err != nil || len(rest) != 0 {
			t.Fatalf("%+v: %+v: %v, %d bytes left", l, s, err, len(rest))
		}
		if limit.Peek(l, back, 1, now) != limit.Peek(l, s, 1, now) || limit.ForgetAt(l, back) != limit.ForgetAt(l, s) {
			t.Fatalf("%+v: %+v was read back as %+v", l, s, back)
		}
	}
}

// For any two limits, used units stay used, even if the new quota is smaller, and a key at rest stays at rest. (A log
// knows its hits: buckets made from a log count what they would have counted, and the oldest hit may have expired.)
func TestConvertKeepsWhatWasUsed(t *testing.T) {
	for _, old := range small {
		for _, new := range small {
			if old.Algorithm == limit.SlidingLog && new.Algorithm == limit.SlidingBuckets {
				continue
			}
			walk(old, 7, func(_ *rand.Rand, s limit.State, _ limit.Verdict, _ uint64, now limit.Time) {
				before := limit.Status(old, s, now).Used
				after := limit.Status(new, limit.Convert(old, s, new, now), now).Used
				if after < before && !unused(old, s) {
					t.Fatalf("from %+v to %+v: %+v had %d used, now %d", old, new, s, before, after)
				}
			})
			if s := limit.Convert(old, limit.State{}, new, noon); limit.ForgetAt(new, s) != 0 {
				t.Errorf("from %+v to %+v: rest became %+v", old, new, s)
			}
		}
	}
}

// unused reports whether a bucket never held all its tokens and none was spent.
func unused(l limit.Limit, s limit.State) bool {
	return l.Algorithm == limit.TokenBucket && l.Initial < l.Quota && s.B == 0
}

func calendarOf(quota uint64, unit limit.Unit, zone string) limit.Limit {
	return limit.Limit{Algorithm: limit.Calendar, Quota: quota,
		Cycle: &limit.Cycle{Unit: unit, Every: 1, Zone: mustLoad(zone)}}
}

func TestConvertBetweenLimitsOfOneShapeIsExact(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old, new limit.Limit
		want     string // 90 s after noon; 3 units were taken at 10 s, 2 at 70 s
		wait     string // for 1 more
	}{
		{"a lower quota",
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 9, Period: hour},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 4, Period: hour},
			"allowed 5/0 reset 3600000000", "denied 5/0 for 3510000000 reset 3600000000"},
		{"a shorter window: the open one ends no earlier",
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 9, Period: hour},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: 7 * minute},
			"allowed 5/0 reset 3960000000", "denied 5/0 for 3870000000 reset 3960000000"},
		{"a longer window",
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 9, Period: minute},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 2, Period: hour},
			"allowed 2/0 reset 3600000000", "denied 2/0 for 3510000000 reset 3600000000"},
		{"a longer window from the first hit",
			limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 9, Period: 2 * minute},
			limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: hour},
			"allowed 5/0 reset 3610000000", "denied 5/0 for 3520000000 reset 3610000000"},
		{"a shorter window from the first hit: the open one ends no earlier",
			limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 9, Period: hour},
			limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: minute},
			"allowed 5/0 reset 3610000000", "denied 5/0 for 3520000000 reset 3610000000"},
		{"another quota of a weighted window",
			limit.Limit{Algorithm: limit.SlidingWindow, Quota: 9, Period: minute},
			limit.Limit{Algorithm: limit.SlidingWindow, Quota: 4, Period: minute},
			"allowed 4/0 reset 180000000", "denied 4/0 for 10000000 reset 180000000"},
		{"a longer log",
			limit.Limit{Algorithm: limit.SlidingLog, Quota: 9, Period: 2 * minute},
			limit.Limit{Algorithm: limit.SlidingLog, Quota: 5, Period: 5 * minute},
			"allowed 5/0 reset 370000000", "denied 5/0 for 220000000 reset 370000000"},
		{"a shorter log",
			limit.Limit{Algorithm: limit.SlidingLog, Quota: 9, Period: hour},
			limit.Limit{Algorithm: limit.SlidingLog, Quota: 2, Period: minute},
			"allowed 2/0 reset 130000000", "denied 2/0 for 40000000 reset 130000000"},
		{"wider buckets",
			limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 9, Period: 2 * minute, Bucket: 5 * second},
			limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 5, Period: 2 * minute, Bucket: minute},
			"allowed 5/0 reset 180000000", "denied 5/0 for 30000000 reset 180000000"},
		{"buckets to a log: as late as the bucket allows",
			limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 9, Period: 2 * minute, Bucket: minute},
			limit.Limit{Algorithm: limit.SlidingLog, Quota: 5, Period: 2 * minute},
			"allowed 5/0 reset 210000000", "denied 5/0 for 89999999 reset 210000000"},
		{"a faster bucket",
			limit.Limit{Algorithm: limit.TokenBucket, Quota: 9, Period: minute, Count: 1, Initial: 9},
			limit.Limit{Algorithm: limit.TokenBucket, Quota: 4, Period: second, Count: 7, Initial: 4},
			"allowed 4/0 reset 90523810", "denied 4/0 for 95239 reset 90523810"}, // 11/3 tokens missing
		{"a bucket to GCRA",
			limit.Limit{Algorithm: limit.TokenBucket, Quota: 9, Period: minute, Count: 1, Initial: 9},
			limit.Limit{Algorithm: limit.GCRA, Quota: 4, Period: second, Count: 7},
			"allowed 4/0 reset 90523810", "denied 4/0 for 95239 reset 90523810"},
		{"a shorter period of the calendar: the open one ends no earlier",
			calendarOf(9, limit.Day, "UTC"), calendarOf(5, limit.Hour, "UTC"),
			"allowed 5/0 reset 86400000000", "denied 5/0 for 86310000000 reset 86400000000"},
		{"a longer one",
			calendarOf(9, limit.Minute, "UTC"), calendarOf(2, limit.Day, "UTC"),
			"allowed 2/0 reset 86400000000", "denied 2/0 for 86310000000 reset 86400000000"},
		{"another zone, where the day ends five hours later",
			calendarOf(9, limit.Day, "UTC"), calendarOf(5, limit.Day, "America/New_York"),
			"allowed 5/0 reset 104400000000", "denied 5/0 for 104310000000 reset 104400000000"},
		{"an hour to a day of the calendar",
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 9, Period: hour}, calendarOf(5, limit.Day, "UTC"),
			"allowed 5/0 reset 86400000000", "denied 5/0 for 86310000000 reset 86400000000"},
		{"a day of the calendar to an hour from the first hit",
			calendarOf(9, limit.Day, "UTC"), limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: hour},
			"allowed 5/0 reset 86400000000", "denied 5/0 for 86310000000 reset 86400000000"},
		{"a day of the calendar to seven hours",
			calendarOf(9, limit.Day, "UTC"), limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: 7 * hour},
			"allowed 5/0 reset 97200000000", "denied 5/0 for 97110000000 reset 97200000000"},
		{"a calendar to concurrency",
			calendarOf(9, limit.Day, "UTC"), limit.Limit{Algorithm: limit.Concurrency, Quota: 5},
			"allowed 5/0", "denied 5/0 forever"},
		{"a lifetime to a window",
			limit.Limit{Algorithm: limit.Lifetime, Quota: 9},
			limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: hour},
			"allowed 5/0 reset 3600000000", "denied 5/0 for 3510000000 reset 3600000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := begin(t, tt.old, noon)
			c.state, _ = limit.Take(c.l, c.state, 3, noon+limit.Time(10*second))
			c.state, _ = limit.Take(c.l, c.state, 2, noon+limit.Time(70*second))
			c.after(90 * second)
			c.state, c.l = limit.Convert(tt.old, c.state, tt.new, c.now), tt.new
			c.look(tt.want)
			c.take(1, tt.wait)
		})
	}
}

// The share of what was used is the share at every later instant too: hits stay where they are. Only the two windows of
// a weighted one are each rounded up, and a bucket and GCRA give back as much as before.
func TestScaleIsTheShareAtEveryInstant(t *testing.T) {
	share := func(n, to, of uint64) uint64 { return (n*to + of - 1) / of }
	for _, l := range small {
		for _, to := range []uint64{1, 3, 4, 10, 27} {
			const of = 10
			walk(l, 11, func(_ *rand.Rand, s limit.State, _ limit.Verdict, _ uint64, now limit.Time) {
				scaled := limit.Scale(l, s, to, of, now)
				if back, rest, err := limit.DecodeState(limit.AppendState(nil, scaled)); err != nil || len(rest) != 0 ||
					limit.ForgetAt(l, back) != limit.ForgetAt(l, scaled) {
					t.Fatalf("%+v: %+v cannot be written: %v", l, scaled, err)
				}
				for _, at := range []limit.Time{now, now + 1, now + limit.Time(l.Period)/3,
					now + limit.Time(l.Period)} {
					before, after := limit.Status(l, s, at).Used, limit.Status(l, scaled, at).Used
					least, most := share(before, to, of), share(before, to, of)
					switch {
					case unused(l, s):
						least, most = before, before
					case l.Algorithm == limit.SlidingWindow:
						least, most = share(before-min(before, 1), to, of), most+2
					case l.Count > 0 && at == now: // the part of a unit is not rounded up first
						least = share(before-min(before, 1), to, of)
					case l.Count > 0:
						least, most = 0, max(before, after)
					}
					if after < least || after > most {
						t.Fatalf("%+v: %+v has %d used, %d/%d of it %d, at %d after",
							l, s, before, to, of, after, at-now)
					}
				}
			})
		}
	}
}
