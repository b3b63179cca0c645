package limit_test

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
)

// Five units a minute, as a token bucket: a denial says exactly how long to wait, and the caller keeps the state.
func ExampleTake() {
	bucket := limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 5, Period: 60 * second, Initial: 5}
	if err := bucket.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	var state limit.State
	now := limit.Time(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).UnixMicro())
	for range 2 {
		var v limit.Verdict
		state, v = limit.Take(bucket, state, 3, now)
		fmt.Println("allowed", v.Allowed, "remaining", v.Remaining, "retry after", v.RetryAfter/second, "s")
		now += limit.Time(v.RetryAfter)
	}
	_, v := limit.Take(bucket, state, 3, now)
	fmt.Println("allowed", v.Allowed)
	// Output:
	// allowed true remaining 2 retry after 0 s
	// allowed false remaining 2 retry after 12 s
	// allowed true
}

// A request that is never going to fit learns that, and one that fits later learns when.
func ExamplePeek() {
	window := limit.Limit{Algorithm: limit.SlidingLog, Quota: 2, Period: 10 * second}
	var state limit.State
	state, _ = limit.Take(window, state, 1, 1*limit.Time(second))
	state, _ = limit.Take(window, state, 1, 4*limit.Time(second))
	for _, cost := range []uint64{1, 2, 3} {
		v := limit.Peek(window, state, cost, 5*limit.Time(second))
		if v.RetryAfter == limit.Never {
			fmt.Println(cost, "units: never")
			continue
		}
		fmt.Println(cost, "units: in", v.RetryAfter/second, "s")
	}
	// Output:
	// 1 units: in 6 s
	// 2 units: in 9 s
	// 3 units: never
}

// A refund gives back what a decision took, to the window that it was taken from.
func ExampleRefund() {
	daily := limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: 24 * 3600 * second}
	taken := limit.Time(1_000 * second)
	state, _ := limit.Take(daily, limit.State{}, 30, taken)
	state = limit.Refund(daily, state, 30, taken, taken+limit.Time(second))
	fmt.Println(limit.Status(daily, state, taken+limit.Time(second)).Used)
	// Output: 0
}

// A calendar counts from the first of a month to the next, in a zone. Its rules are part of the program.
func ExampleCycle() {
	zone, err := limit.LoadZone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	month := limit.Limit{Algorithm: limit.Calendar, Quota: 1000,
		Cycle: &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 1, Zone: zone}}
	now := limit.Time(time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC).UnixMicro())
	_, v := limit.Take(month, limit.State{}, 1, now)
	fmt.Println(time.UnixMicro(int64(v.WindowStart)).In(zone.Location()).Format(time.RFC3339))
	fmt.Println(time.UnixMicro(int64(v.ResetAt)).In(zone.Location()).Format(time.RFC3339))
	// Output:
	// 2026-03-01T00:00:00+01:00
	// 2026-04-01T00:00:00+02:00
}

// New numbers carry the use of the old ones over.
func ExampleConvert() {
	old := limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: 60 * second}
	larger := old
	larger.Quota = 50
	now := limit.Time(30 * second)
	state, _ := limit.Take(old, limit.State{}, 8, now)
	v := limit.Status(larger, limit.Convert(old, state, larger, now), now)
	fmt.Println("used", v.Used, "remaining", v.Remaining)
	// Output: used 8 remaining 42
}
