package limit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

// noon is the beginning of an hour and of a day.
const noon = limit.Time(1_699_920_000_000_000)

// counter takes one limit of one key through time, one line of a story after the other.
type counter struct {
	t     *testing.T
	l     limit.Limit
	state limit.State
	now   limit.Time
}

func begin(t *testing.T, l limit.Limit, now limit.Time) *counter {
	t.Helper()
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return &counter{t: t, l: l, now: now}
}

// after sets the time to span after noon.
func (c *counter) after(span limit.Span) *counter { c.now = noon + limit.Time(span); return c }

// take expects "allowed used/remaining" or "denied used/remaining wait", with the wait and the time from noon until
// reset in microseconds.
func (c *counter) take(cost uint64, want string) {
	c.t.Helper()
	peeked := limit.Peek(c.l, c.state, cost, c.now)
	next, v := limit.Take(c.l, c.state, cost, c.now)
	if peeked.Allowed != v.Allowed || peeked.RetryAfter != v.RetryAfter {
		c.t.Errorf("peek %+v is not what take says: %+v", peeked, v)
	}
	c.state = next
	c.expect(v, want)
}

func (c *counter) look(want string) {
	c.t.Helper()
	c.expect(limit.Status(c.l, c.state, c.now), want)
}

func (c *counter) refund(cost uint64, taken limit.Span, want string) {
	c.t.Helper()
	c.state = limit.Refund(c.l, c.state, cost, noon+limit.Time(taken), c.now)
	c.look(want)
}

func (c *counter) expect(v limit.Verdict, want string) {
	c.t.Helper()
	if got := tell(v); got != want {
		c.t.Errorf("at %d us after noon: %s, want %s", c.now-noon, got, want)
	}
}

func tell(v limit.Verdict) string {
	var b strings.Builder
	if v.Allowed {
		fmt.Fprintf(&b, "allowed %d/%d", v.Used, v.Remaining)
	} else if v.RetryAfter == limit.Never {
		fmt.Fprintf(&b, "denied %d/%d forever", v.Used, v.Remaining)
	} else {
		fmt.Fprintf(&b, "denied %d/%d for %d", v.Used, v.Remaining, v.RetryAfter)
	}
	if v.ResetAt > 0 {
		fmt.Fprintf(&b, " reset %d", v.ResetAt-noon)
	}
	return b.String()
}

func TestAFixedWindowBeginsAnewWithEachPeriodOfTheClock(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.FixedWindow, Quota: 3, Period: minute}, noon)
	c.look("allowed 0/3 reset 0")
	c.after(59*second).take(2, "allowed 2/1 reset 60000000")
	c.take(2, "denied 2/1 for 1000000 reset 60000000")
	c.take(1, "allowed 3/0 reset 60000000")
	c.take(4, "denied 3/0 forever reset 60000000")
	c.after(minute-1).take(1, "denied 3/0 for 1 reset 60000000")
	c.after(minute).take(3, "allowed 3/0 reset 120000000") // twice the quota within a second of the edge
	c.refund(1, 59*second, "allowed 3/0 reset 120000000")  // that window has passed
	c.refund(1, minute, "allowed 2/1 reset 120000000")
	c.refund(9, minute, "allowed 0/3 reset 60000000")
}

func TestAWindowAnchoredAtItsFirstHitLastsOnePeriodFromThere(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 2, Period: minute}, noon)
	c.after(59*second).take(1, "allowed 1/1 reset 119000000")
	c.after(minute).take(1, "allowed 2/0 reset 119000000")
	c.after(119*second-1).take(1, "denied 2/0 for 1 reset 119000000")
	c.after(119 * second).look("allowed 0/2 reset 119000000") // at equality it has ended
	c.after(200*second).take(2, "allowed 2/0 reset 260000000")
	c.refund(1, minute, "allowed 2/0 reset 260000000")
	c.refund(2, 200*second, "allowed 0/2 reset 200000000") // all given back: at rest
	c.after(210*second).take(1, "allowed 1/1 reset 270000000")
}

func TestAWeightedWindowLetsThePreviousOneFade(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.SlidingWindow, Quota: 100, Period: minute}, noon)
	c.after(10*second).take(80, "allowed 80/20 reset 120000000")
	c.after(75 * second).look("allowed 60/40 reset 120000000") // a quarter of the way: 75 % of 80
	c.take(40, "allowed 100/0 reset 180000000")
	c.take(1, "denied 100/0 for 750000 reset 180000000") // 80 units fade in 60 s
	c.after(75*second+749_999).take(1, "denied 100/0 for 1 reset 180000000")
	c.after(75*second+750_000).take(1, "allowed 100/0 reset 180000000")
	c.refund(1, 75*second, "allowed 99/1 reset 180000000")
	c.refund(79, 10*second, "allowed 41/59 reset 180000000") // 40 and what remains of 1
	c.take(60, "denied 41/59 for 44250000 reset 180000000")
	c.after(3 * minute).look("allowed 0/100 reset 180000000")
}

func TestBucketsLeaveOneAfterTheOther(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 10, Period: 5 * minute, Bucket: minute}, noon)
	c.after(30*second).take(4, "allowed 4/6 reset 300000000")
	c.after(59*second).take(1, "allowed 5/5 reset 300000000")
	c.after(4*minute).take(5, "allowed 10/0 reset 540000000")
	c.take(5, "denied 10/0 for 60000000 reset 540000000")
	c.take(6, "denied 10/0 for 300000000 reset 540000000")
	c.after(5*minute-1).take(1, "denied 10/0 for 1 reset 540000000")
	c.after(5*minute).take(1, "allowed 6/4 reset 600000000") // the bucket of 12:00 is not one of the newest five
	c.refund(1, 30*second, "allowed 6/4 reset 600000000")
	c.refund(9, 4*minute+30*second, "allowed 1/9 reset 600000000") // into its bucket, at most what that has
}

func TestALogForgetsEachHitOnePeriodAfterIt(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.SlidingLog, Quota: 3, Period: minute}, noon)
	c.after(1).take(1, "allowed 1/2 reset 60000001")
	c.after(2).take(1, "allowed 2/1 reset 60000002")
	c.take(1, "allowed 3/0 reset 60000002")
	c.take(1, "denied 3/0 for 59999999 reset 60000002")
	c.take(2, "denied 3/0 for 60000000 reset 60000002")
	c.after(minute).look("allowed 3/0 reset 60000002")
	c.after(minute+1).take(1, "allowed 3/0 reset 120000001")
	c.refund(1, 1, "allowed 3/0 reset 120000001")
	c.refund(1, 2, "allowed 2/1 reset 120000001")
	c.refund(5, minute+1, "allowed 1/2 reset 60000002")
	c.refund(1, 2, "allowed 0/3 reset 60000001")
}

func TestATokenBucketStartsFullAndFillsEvenly(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Period: second, Count: 3, Initial: 5}, noon)
	c.look("allowed 0/5 reset 0")
	c.take(5, "allowed 5/0 reset 1666667") // 5/3 s
	c.take(1, "denied 5/0 for 333334 reset 1666667")
	c.after(333_333).take(1, "denied 5/0 for 1 reset 1666667")
	c.after(333_334).take(1, "allowed 5/0 reset 2000000") // 2 parts in 3,000,000 of a token remain
	c.after(2_000_000).look("allowed 0/5 reset 2000000")
	c.take(2, "allowed 2/3 reset 2666667")
	c.refund(1, 2_000_000, "allowed 1/4 reset 2333334")
	c.refund(9, 2_000_000, "allowed 0/5 reset 2000000")
}

func TestABucketWithAnInitialLevelFillsFromItsFirstUse(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Period: second, Count: 1, Initial: 2}, noon)
	c.take(3, "denied 3/2 forever reset 0")
	c.refund(1, 0, "allowed 3/2 reset 0")                        // nothing was taken
	c.after(hour).take(3, "denied 3/2 forever reset 3600000000") // a denial began nothing
	c.take(2, "allowed 5/0 reset 3605000000")
	c.take(3, "denied 5/0 for 3000000 reset 3605000000")
	c.after(2*hour).take(5, "allowed 5/0 reset 7205000000")
}

func TestGCRAFromRestGivesItsQuotaAtOnceAndThenOneForEachInterval(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.GCRA, Quota: 3, Period: second, Count: 7}, noon)
	for _, want := range []string{"allowed 1/2 reset 142858", "allowed 2/1 reset 285715", "allowed 3/0 reset 428572"} {
		c.after(0).take(1, want)
	}
	c.take(1, "denied 3/0 for 142858 reset 428572")
	c.after(142_857).take(1, "denied 3/0 for 1 reset 428572")
	c.after(142_858).take(1, "allowed 3/0 reset 571429") // four intervals of 1/7 s after noon, rounded up
	c.refund(1, 142_858, "allowed 2/1 reset 428572")
	c.refund(9, 142_858, "allowed 0/3 reset 142858")
}

func TestALifetimeQuotaComesBackOnlyByRefund(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.Lifetime, Quota: 2}, noon)
	c.look("allowed 0/2 reset 0")
	c.take(2, "allowed 2/0")
	c.after(10000*day).take(1, "denied 2/0 forever")
	c.refund(1, 0, "allowed 1/1")
	c.refund(2, 0, "allowed 0/2 reset 864000000000000")
}

func TestAMonthOfNewYorkBeginsOnThe15thAtMidnightThere(t *testing.T) {
	l := limit.Limit{Algorithm: limit.Calendar, Quota: 10, Cycle: monthInNewYork}
	c := begin(t, l, noon) // November 13, 19:00 there
	c.take(8, "allowed 8/2 reset 104400000000")
	c.take(3, "denied 8/2 for 104400000000 reset 104400000000")
	c.after(29*hour-1).take(2, "allowed 10/0 reset 104400000000")
	c.take(1, "denied 10/0 for 1 reset 104400000000")
	c.after(29*hour).take(1, "allowed 1/9 reset 2696400000000") // 30 days
	c.refund(2, 29*hour-1, "allowed 1/9 reset 2696400000000")   // that month has passed
	c.refund(9, 29*hour, "allowed 0/10 reset 104400000000")
}

func TestWhatIsHeldAtOneTimeComesBackOnlyWhenItIsGivenBack(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.Concurrency, Quota: 3}, noon)
	c.take(2, "allowed 2/1")
	c.after(10000*day).take(2, "denied 2/1 forever")
	c.refund(2, 0, "allowed 0/3 reset 864000000000000")
	if at := limit.ForgetAt(c.l, c.state); at != 0 {
		t.Errorf("given back, and forgotten at %d", at)
	}
}

// An open period keeps its end, and units taken in it can be given back, whatever the new numbers are.
func TestAnOpenWindowOutlivesItsNumbers(t *testing.T) {
	first := calendarOf(9, limit.Day, "UTC")
	for _, next := range []limit.Limit{
		calendarOf(9, limit.Day, "Asia/Kathmandu"), calendarOf(9, limit.Minute, "UTC"),
		{Algorithm: limit.FixedWindow, Quota: 9, Period: minute},
		{Algorithm: limit.FixedWindowFirstHit, Quota: 9, Period: minute},
	} {
		s, v := limit.Take(first, limit.State{}, 4, noon+5)
		s = limit.Convert(first, s, next, noon+limit.Time(hour))
		s, w := limit.Take(next, s, 2, noon+limit.Time(2*hour))
		if w.Used != 6 || w.WindowStart > noon+5 || w.ResetAt < v.ResetAt {
			t.Errorf("%+v: %+v became %+v", next, v, w)
		}
		s = limit.Refund(next, s, 1, noon+5, noon+limit.Time(3*hour))
		s = limit.Refund(next, s, 1, noon+limit.Time(2*hour), noon+limit.Time(3*hour))
		if left := limit.Status(next, s, noon+limit.Time(3*hour)); left.Used != 4 {
			t.Errorf("%+v: 2 of 6 given back: %+v", next, left)
		}
	}
}

func TestUnlimitedCountsAndNeverDenies(t *testing.T) {
	c := begin(t, limit.Limit{Algorithm: limit.Unlimited}, noon)
	c.take(limit.MaxCost, "allowed 1099511627776/0")
	c.take(1, "allowed 1099511627777/0")
	c.refund(2, 0, "allowed 1099511627775/0")
}

// rates are a token bucket and a GCRA of 3; one unit comes back every second.
var rates = []limit.Limit{
	{Algorithm: limit.GCRA, Quota: 3, Period: minute, Count: 60},
	{Algorithm: limit.TokenBucket, Quota: 3, Period: minute, Count: 60, Initial: 3},
}

// All units added to a token bucket or GCRA are used, however many, and the wait for them is exact to the microsecond.
func TestTheDebtOfARateIsAllCounted(t *testing.T) {
	for _, l := range rates {
		c := begin(t, l, noon)
		for range 1000 {
			c.state, _ = limit.Add(c.l, c.state, 1_000_000, c.now)
		}
		c.look("allowed 1000000000/0 reset 1000000000000000")
		c.take(1, "denied 1000000000/0 for 999999998000000 reset 1000000000000000")
		c.after(999_999_998_000_000-1).take(1, "denied 3/0 for 1 reset 1000000000000000")
		c.after(999_999_998_000_000).take(1, "allowed 3/0 reset 1000000001000000")
	}
}

// The debt saturates at 62 bits. Such a state is encoded like any other, its wait is exact to the microsecond, and it
// can be refunded.
func TestTheDeepestDebtOfARate(t *testing.T) {
	for _, l := range rates {
		for _, at := range []limit.Time{noon, limit.MaxTime} {
			c := begin(t, l, at)
			for range 10_000 {
				c.state, _ = limit.Add(c.l, c.state, limit.MaxCost, c.now)
			}
			kept, rest, err := limit.DecodeState(limit.AppendState(nil, c.state))
			if err != nil || len(rest) != 0 || limit.Status(l, kept, at) != limit.Status(l, c.state, at) {
				t.Fatalf("%+v: kept as %+v, %v", c.state, kept, err)
			}
			v := limit.Peek(l, kept, 1, at)
			const most = 1 << 62 / 1_000_000 // a unit is a million parts
			if v.Used != most+1 || v.RetryAfter != 1<<62-2_000_000 || v.ResetAt != at+1<<62 {
				t.Errorf("%+v: %+v", l, v)
			}
			s := limit.SetUsed(l, kept, most, at)
			if got := limit.Status(l, limit.Refund(l, s, 1000, at, at), at); got.Used != most-1000 {
				t.Errorf("%+v: 1000 given back: %+v", l, got)
			}
		}
	}
}

// Units that the caller did not ask to be charged cause a wait of at most two fillings.
func TestABoundedDebtOfARateEnds(t *testing.T) {
	for _, l := range rates {
		c := begin(t, l, noon)
		for range 1000 {
			c.state, _ = limit.AddBounded(c.l, c.state, limit.MaxCost, c.now)
		}
		c.look("allowed 6/0 reset 6000000")
		c.take(1, "denied 6/0 for 4000000 reset 6000000")
		c.state, _ = limit.Add(c.l, c.state, 4, c.now)
		c.state, _ = limit.AddBounded(c.l, c.state, 4, c.now)
		c.look("allowed 10/0 reset 10000000")
	}
}

// A refund gives back only what has not come back on its own since. A bucket that is full again gets nothing back, even
// if others have used it in the meantime.
func TestARefundOfWhatCameBackGivesNothing(t *testing.T) {
	for _, l := range rates {
		c := begin(t, l, noon)
		c.take(3, "allowed 3/0 reset 3000000")
		c.after(2 * second)
		c.refund(3, 0, "allowed 0/3 reset 2000000") // only one had come back
		c.take(3, "allowed 3/0 reset 5000000")
		c.after(4*second).take(1, "allowed 2/1 reset 6000000")
		c.refund(3, 2*second, "allowed 1/2 reset 5000000")
		c.after(minute).take(3, "allowed 3/0 reset 63000000")
		c.refund(3, 4*second, "allowed 3/0 reset 63000000")
		c.refund(1, minute, "allowed 2/1 reset 62000000")
	}
}

func TestAddCountsPastTheQuotaAndTheDebtIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		l                limit.Limit
		added, thenTaken string
	}{
		{limit.Limit{Algorithm: limit.FixedWindow, Quota: 3, Period: minute}, "denied 5/0 for 0 reset 60000000",
			"denied 5/0 for 60000000 reset 60000000"},
		{limit.Limit{Algorithm: limit.SlidingWindow, Quota: 3, Period: minute}, "denied 5/0 for 0 reset 120000000",
			"denied 5/0 for 96000000 reset 120000000"},
		{limit.Limit{Algorithm: limit.SlidingLog, Quota: 3, Period: minute}, "denied 5/0 for 0 reset 60000000",
			"denied 5/0 for 60000000 reset 60000000"},
		{limit.Limit{Algorithm: limit.GCRA, Quota: 3, Period: minute, Count: 60}, "denied 5/0 for 0 reset 5000000",
			"denied 5/0 for 3000000 reset 5000000"},
		{limit.Limit{Algorithm: limit.TokenBucket, Quota: 3, Period: minute, Count: 60, Initial: 3},
			"denied 5/0 for 0 reset 5000000", "denied 5/0 for 3000000 reset 5000000"},
		{limit.Limit{Algorithm: limit.Lifetime, Quota: 3}, "denied 5/0 for 0", "denied 5/0 forever"},
	} {
		c := begin(t, tt.l, noon)
		var v limit.Verdict
		c.state, v = limit.Add(c.l, c.state, 5, c.now)
		c.expect(v, tt.added)
		c.take(1, tt.thenTaken)
	}
}
