package shard

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// monthly is a meter of months that keeps so many.
func monthly(retain uint64) *policy.Meter {
	return &policy.Meter{Name: "calls", Cycle: &limit.Cycle{Unit: limit.Month, Every: 1, Zone: zones[0]},
		Retain: retain, Grace: 15 * minute}
}

// BenchmarkMeters measures a decision with a meter, and with one and thresholds that it does not cross, beside one
// without: the work of an owner and of a replica, as BenchmarkBatch does.
func BenchmarkMeters(b *testing.B) {
	metered, billed := onePolicy(windowLimit), noted(windowLimit, percent(80), percent(100), units(1<<39))
	metered.Meter, billed.Meter = monthly(3), monthly(3)
	for _, c := range []struct {
		name   string
		policy *policy.Policy
	}{{"off", onePolicy(windowLimit)}, {"meter", metered}, {"meter-and-thresholds", billed}} {
		for _, keys := range []int{100, 100_000} {
			for _, size := range []int{1, 256} {
				b.Run(fmt.Sprintf("%s/keys=%d/batch=%d", c.name, keys, size), func(b *testing.B) {
					benchBatch(b, c.policy, keys, size, never)
				})
			}
		}
	}
}

// BenchmarkHeapOfMeters reports what a key takes without a meter, with one in its first month, and with so many months
// that are over: in its record, and of the heap. B/period is what each month adds to the record after the first, with
// which the meter's beginning is forgotten.
func BenchmarkHeapOfMeters(b *testing.B) {
	const keys, amonth = 10_000, 31 * 24 * anHour
	one := 0.0
	for _, months := range []int{-1, 0, 1, 3, 12, 36} {
		p, name := onePolicy(windowLimit), "no-meter"
		if months >= 0 {
			p.Meter, name = monthly(uint64(max(months, 1))), fmt.Sprintf("months=%d", months)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				s := NewState(3)
				packed := 0
				for i := range keys {
					c := counter{key: keyOfBytes24(i), policy: p,
						limits: []counted{{name: "minute", limit: windowLimit}}}
					now := origin
					for m := range months + 1 { // the last one is open
						now = origin + limit.Time(m)*amonth + limit.Time(i)
						c.bill(p.Meter, 1000+uint64(i), now)
					}
					if months >= 0 && len(c.meters[0].periods) != months+1 {
						b.Fatalf("%d periods, want %d", len(c.meters[0].periods), months+1)
					}
					c.limits[0].state, _ = limit.Take(windowLimit, limit.State{}, 1+uint64(i%3), now)
					put := c.encode(now)
					packed += len(put.Record.Value)
					s.table.Put(put.Key, put.Record)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				record := float64(packed) / keys
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/record")
				b.ReportMetric(record, "B/value")
				if months == 1 {
					one = record
				}
				if months > 1 {
					b.ReportMetric((record-one)/float64(months-1), "B/period")
				}
				runtime.KeepAlive(s)
			}
		})
	}
}
