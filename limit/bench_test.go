package limit_test

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

const (
	microsecond = limit.Span(1)
	second      = limit.Span(1_000_000)
	minute      = 60 * second
	hour        = 60 * minute
	day         = 24 * hour
)

var monthInNewYork = &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15, Zone: mustLoad("America/New_York")}

func mustLoad(name string) *limit.Zone {
	z, err := limit.LoadZone(name)
	if err != nil {
		panic(err)
	}
	return z
}

// examples has one limit of each algorithm, with realistic numbers.
var examples = []struct {
	name string
	limit.Limit
}{
	{"FixedWindow", limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: minute}},
	{"FixedWindowFirstHit", limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 100, Period: day}},
	{"SlidingWindow", limit.Limit{Algorithm: limit.SlidingWindow, Quota: 100, Period: minute}},
	{"SlidingBuckets", limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 100_000, Period: day, Bucket: minute}},
	{"SlidingLog", limit.Limit{Algorithm: limit.SlidingLog, Quota: 1000, Period: 15 * minute}},
	{"TokenBucket", limit.Limit{Algorithm: limit.TokenBucket, Quota: 200, Period: second, Count: 50, Initial: 200}},
	{"GCRA", limit.Limit{Algorithm: limit.GCRA, Quota: 200, Period: second, Count: 50}},
	{"Lifetime", limit.Limit{Algorithm: limit.Lifetime, Quota: 1_000_000_000}},
	{"Calendar", limit.Limit{Algorithm: limit.Calendar, Quota: 1_000_000, Cycle: monthInNewYork}},
	{"Concurrency", limit.Limit{Algorithm: limit.Concurrency, Quota: 1_000_000_000}},
	{"Unlimited", limit.Limit{Algorithm: limit.Unlimited}},
}

// BenchmarkTake measures a hot key: batches of 64 requests at one instant, a batch each millisecond. The state starts
// with as much history as the traffic leaves.
func BenchmarkTake(b *testing.B) {
	for _, l := range examples {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			now := limit.Time(1_700_000_000_000_000)
			var s limit.State
			for i := 0; b.Loop(); i++ {
				if i%64 == 0 {
					now += 1000
				}
				s, _ = limit.Take(l.Limit, s, 1, now)
			}
		})
	}
}

// BenchmarkTakeEachInstant is BenchmarkTake with one request per instant, 50 microseconds apart.
func BenchmarkTakeEachInstant(b *testing.B) {
	for _, l := range examples {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			now := limit.Time(1_700_000_000_000_000)
			var s limit.State
			for b.Loop() {
				now += limit.Time(max(50, l.Period/limit.Span(max(1, l.Quota))))
				s, _ = limit.Take(l.Limit, s, 1, now)
			}
		})
	}
}

// BenchmarkAppendState encodes a full state.
func BenchmarkAppendState(b *testing.B) {
	for _, l := range examples {
		b.Run(l.name, func(b *testing.B) {
			s, now := limit.State{}, limit.Time(1_700_000_000_000_000)
			for range 2000 {
				s, _ = limit.Take(l.Limit, s, 1, now)
				now += limit.Time(minute)
			}
			buf := limit.AppendState(nil, s)
			b.ReportMetric(float64(len(buf)), "bytes")
			b.ReportAllocs()
			for b.Loop() {
				buf = limit.AppendState(buf[:0], s)
			}
		})
	}
}

// BenchmarkOpenPeriod measures the first request of a key in a calendar period, the only one that consults the zone.
func BenchmarkOpenPeriod(b *testing.B) {
	l := limit.Limit{Algorithm: limit.Calendar, Quota: 5, Cycle: monthInNewYork}
	b.ReportAllocs()
	for b.Loop() {
		limit.Take(l, limit.State{}, 1, 1_790_000_000_000_000)
	}
}

// BenchmarkDecodeLimit decodes the limit that precedes every State in a counter's record.
func BenchmarkDecodeLimit(b *testing.B) {
	for _, l := range examples {
		b.Run(l.name, func(b *testing.B) {
			text := limit.AppendLimit(nil, l.Limit)
			b.ReportAllocs()
			for b.Loop() {
				limit.DecodeLimit(text, l.Limit)
			}
		})
	}
}
