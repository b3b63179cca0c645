package examples

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// Rows 28 and 39 use a window of one second and a quota of 100.
const (
	edgeQuota  = 100
	edgePeriod = time.Second
)

// An aligned window admits twice its quota around its edge: harmless for 1,000 an hour, a way around a tight limit.
func TestSeedRow39AnAlignedWindowAdmitsTwiceAtItsEdge(t *testing.T) {
	c := node(t)
	// What is slow comes into a later window than it is meant for: then others are spent, on another key.
	for attempt := 0; ; attempt++ {
		e := entry("aligned", fmt.Sprint("row 39 ", attempt))
		first := c.batch(edgeQuota+1, e)
		end := first[0].Limits[0].ResetAt
		awaitTime(c, end)
		second := c.batch(edgeQuota+1, e)
		if last(first).DecidedAt.Before(end) && last(second).DecidedAt.Before(end.Add(edgePeriod)) {
			if n := allowed(first) + allowed(second); n != 2*edgeQuota {
				t.Errorf("%d are admitted in two seconds, want %d", n, 2*edgeQuota)
			}
			return
		}
	}
}

// A sliding window does not: the hundred of the previous second count by the share of it that is still inside.
func TestSeedRow39ASlidingWindowAdmitsWhatHasSlidOut(t *testing.T) {
	c := node(t)
	for attempt := 0; ; attempt++ {
		e, twin := entry("weighted", fmt.Sprint("row 39 ", attempt)), weighted{}
		first := c.batch(edgeQuota+1, e)
		twin.judge(t, first)
		next := first[0].DecidedAt.Truncate(edgePeriod).Add(edgePeriod)
		awaitTime(c, next.Add(edgePeriod/10))
		second := c.batch(edgeQuota+1, e)
		twin.judge(t, second)
		if last(first).DecidedAt.Before(next) && last(second).DecidedAt.Before(next.Add(edgePeriod)) {
			if n := allowed(second); n == edgeQuota {
				t.Errorf("all %d of the next window are admitted at once", n)
			}
			return
		}
	}
}

// At the 25 % mark the previous window counts three quarters, and at every other instant its share, rounded up.
func TestSeedRow39TheWindowBeforeFadesEvenly(t *testing.T) {
	c := node(t)
	twin := weighted{}
	twin.judge(t, c.batch(edgeQuota, entry("weighted", "row 39 fades")))
	until := twin.window.Add(2 * edgePeriod)
	await.Until(t, "the window before has faded", func() bool {
		limits, at := c.get("weighted", "row 39 fades")
		if used := limits[0].Used; used != twin.used(at) {
			t.Fatalf("%v after the start of its window: used %d, want %d", at.Sub(twin.window), used, twin.used(at))
		}
		if part := at.Sub(twin.window.Add(edgePeriod)); twin.current == edgeQuota && part > edgePeriod/5 &&
			part < edgePeriod*3/10 {
			if used := limits[0].Used; used < 70 || used > 80 {
				t.Errorf("around the 25 %% mark %d count, want about 75", used)
			}
		}
		return at.After(until)
	})
}

// weighted is the count of a weighted window: current + previous x (1 - the elapsed fraction).
type weighted struct {
	window          time.Time // start of the current one
	current, before int64
}

func (w *weighted) moveTo(at time.Time) {
	start := at.Truncate(edgePeriod)
	switch start.Sub(w.window) {
	case 0:
	case edgePeriod:
		w.before, w.current = w.current, 0
	default:
		w.before, w.current = 0, 0
	}
	w.window = start
}

// fading is the count of the previous window, times the period.
func (w *weighted) fading(at time.Time) int64 {
	return w.before * (edgePeriod - at.Sub(w.window)).Microseconds()
}

func (w weighted) used(at time.Time) uint64 {
	w.moveTo(at)
	period := edgePeriod.Microseconds()
	return uint64(w.current + (w.fading(at)+period-1)/period)
}

// judge compares answers, in order, with the expected ones.
func (w *weighted) judge(t *testing.T, decisions []decision) {
	t.Helper()
	period := edgePeriod.Microseconds()
	for i, d := range decisions {
		w.moveTo(d.DecidedAt)
		should := (w.current+1)*period+w.fading(d.DecidedAt) <= edgeQuota*period
		if d.Allowed != should {
			t.Fatalf("request %d, %v into its window, with %d before and %d now: allowed %v", i+1,
				d.DecidedAt.Sub(w.window), w.before, w.current, d.Allowed)
		}
		if d.Allowed {
			w.current++
		}
	}
}

// awaitTime waits until the server's time is at least at.
func awaitTime(c client, at time.Time) {
	c.t.Helper()
	await.Until(c.t, fmt.Sprint("the server's time is ", at), func() bool {
		_, now := c.get("aligned", "row 39")
		return !now.Before(at)
	})
}
