package examples

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Rows 8 and 36 to 39 need limits that a test can fill before a window ends. Where the row's own numbers have a short
// aligned window, the test sends everything in one call, which has one time.

// A minute and an hour are one policy and one call. A request that one of them denies is not counted by the other.
func TestSeedRow08MinuteAndHourAreOneDecision(t *testing.T) {
	c := node(t)
	for i, d := range c.batch(11, entry("hybrid", "row 8")) {
		if want := i < 10; d.Allowed != want {
			t.Fatalf("request %d: allowed %v, want %v", i+1, d.Allowed, want)
		}
	}
	limits, _ := c.get("hybrid", "row 8")
	if m, h := find(t, limits, "minute").Used, find(t, limits, "hour").Used; m != 10 || h != 10 {
		t.Errorf("the minute denied and used is %d and %d, want 10 and 10", m, h)
	}
	c.adjust("hybrid", "row 8", "limit", "minute", "reset", object{})
	for i, d := range c.batch(3, entry("hybrid", "row 8")) {
		if want := i < 2; d.Allowed != want {
			t.Fatalf("request %d of the hour's last: allowed %v, want %v", i+1, d.Allowed, want)
		}
	}
	limits, _ = c.get("hybrid", "row 8")
	if m, h := find(t, limits, "minute").Used, find(t, limits, "hour").Used; m != 2 || h != 12 {
		t.Errorf("the hour denied and used is %d and %d, want 2 and 12", m, h)
	}
}

// A denial names the limits that denied, and carries the policy's text.
func TestSeedRow09DenialsHaveReasons(t *testing.T) {
	c := node(t)
	d := last(c.batch(11, entry("hybrid", "row 9")))
	if d.Allowed || !slices.Equal(d.DeniedBy, []string{"hybrid/minute"}) || d.Reason != "Too many requests." {
		t.Errorf("the eleventh: allowed %v, denied by %v, reason %q", d.Allowed, d.DeniedBy, d.Reason)
	}
	c.adjust("hybrid", "row 9", "limit", "minute", "reset", object{})
	d = last(c.batch(3, entry("hybrid", "row 9")))
	if d.Allowed || !slices.Equal(d.DeniedBy, []string{"hybrid/hour"}) || d.Reason != "Too many requests." {
		t.Errorf("the thirteenth: allowed %v, denied by %v, reason %q", d.Allowed, d.DeniedBy, d.Reason)
	}
	if d.RetryAfter == nil || *d.RetryAfter <= 0 {
		t.Errorf("the thirteenth may come again after %v", d.RetryAfter)
	}
}

// increment(key, windowSeconds) -> {count, resetAt}: a window that begins with the first hit, and a count that
// continues above the quota.
func TestSeedRow10CountInAWindowFromTheFirstHit(t *testing.T) {
	c := node(t)
	for name, e := range map[string]object{
		"policy": entry("stoma", "row 10"),
		"inline": entry("", "row 10", "limits", []object{{"name": "window", "quota": "3",
			"fixedWindow": object{"period": "60s", "anchor": "ANCHOR_FIRST_HIT"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			c := client{t, c.address}
			first := c.count(e)
			resetAt := first.DecidedAt.Add(time.Minute)
			for want := uint64(1); want <= 5; want++ {
				d := first
				if want > 1 {
					d = c.count(e)
				}
				w := d.limit(t, "window")
				if !d.Allowed || w.Used != want || !w.ResetAt.Equal(resetAt) || !w.WindowStart.Equal(first.DecidedAt) {
					t.Errorf("hit %d: allowed %v, used %d, from %v to %v, want until %v", want, d.Allowed, w.Used,
						w.WindowStart, w.ResetAt, resetAt)
				}
				if over := want > 3; w.Allowed == over {
					t.Errorf("hit %d: the limit says allowed %v", want, w.Allowed)
				}
			}
		})
	}
}

// decrement and reset of the same interface.
func TestSeedRow10DecrementAndReset(t *testing.T) {
	c := node(t)
	first := c.count(entry("stoma", "row 10 back"))
	second := c.count(entry("stoma", "row 10 back"))
	resetAt := first.limit(t, "window").ResetAt

	for range 2 { // a refund that is sent twice gives back once
		w := c.settle("decisionId", second.DecisionID, "cancel", object{}).limit(t, "window")
		if w.Used != 1 || !w.ResetAt.Equal(resetAt) {
			t.Errorf("after a refund used is %d until %v, want 1 until %v", w.Used, w.ResetAt, resetAt)
		}
	}
	c.count(entry("stoma", "row 10 back"))
	w := find(t, c.adjust("stoma", "row 10 back", "addUsed", "-1"), "window")
	if w.Used != 1 || !w.ResetAt.Equal(resetAt) {
		t.Errorf("after one less used is %d until %v, want 1 until %v", w.Used, w.ResetAt, resetAt)
	}
	w = find(t, c.adjust("stoma", "row 10 back", "reset", object{}), "window")
	if w.Used != 0 {
		t.Errorf("after a reset used is %d", w.Used)
	}
	again := c.count(entry("stoma", "row 10 back"))
	if w := again.limit(t, "window"); w.Used != 1 || !w.ResetAt.Equal(again.DecidedAt.Add(time.Minute)) {
		t.Errorf("after a reset the first hit has used %d until %v, at %v", w.Used, w.ResetAt, again.DecidedAt)
	}
}

// A hundred per sixty seconds for one address. The wait of the 101st ends with the window.
func TestSeedRow36AHundredAMinute(t *testing.T) {
	c := node(t)
	var decisions []decision
	for attempt := 0; ; attempt++ {
		decisions = c.batch(101, entry("per-ip", "203.0.113."+strconv.Itoa(attempt)))
		// A minute that began during the run is not an error: the run is repeated.
		if decisions[0].Limits[0].ResetAt.Equal(decisions[100].Limits[0].ResetAt) {
			break
		}
	}
	for i, d := range decisions[:100] {
		if w := d.Limits[0]; !d.Allowed || w.Used != uint64(i+1) || w.Remaining != uint64(99-i) {
			t.Fatalf("request %d: %+v", i+1, d)
		}
	}
	d := decisions[100]
	w := d.Limits[0]
	if d.Allowed || w.Used != 100 || w.Remaining != 0 || d.RetryAfter == nil {
		t.Fatalf("request 101: %+v", d)
	}
	if !w.ResetAt.Equal(w.ResetAt.Truncate(time.Minute)) ||
		!d.DecidedAt.Add(time.Duration(*d.RetryAfter)).Equal(w.ResetAt) {
		t.Errorf("at %v the wait is %v, and the window ends at %v",
			d.DecidedAt, time.Duration(*d.RetryAfter), w.ResetAt)
	}
	if other := c.check("per-ip", "198.51.100.1"); !other.Allowed || other.Limits[0].Used != 1 {
		t.Errorf("another address: %+v", other)
	}
}

// The policy osa: 10 a minute in production, 60 for developers, and at most 60 an hour.
func TestSeedRow37MinuteAndHourOfOsa(t *testing.T) {
	c := node(t)
	for _, tier := range []struct {
		name     string
		quota    int
		deniedBy []string
	}{
		{"prod", 10, []string{"osa/minute"}},
		{"dev", 60, []string{"osa/minute", "osa/hour"}},
	} {
		decisions := c.batch(tier.quota+1, entry("osa", "row 37 "+tier.name, "tier", tier.name))
		for i, d := range decisions[:tier.quota] {
			if !d.Allowed {
				t.Fatalf("%s, request %d is denied: %+v", tier.name, i+1, d)
			}
		}
		if d := last(decisions); d.Allowed || !slices.Equal(d.DeniedBy, tier.deniedBy) {
			t.Errorf("%s, request %d: allowed %v, denied by %v", tier.name, tier.quota+1, d.Allowed, d.DeniedBy)
		}
	}
	if d := last(c.batch(11, entry("osa", "row 37"))); d.Allowed {
		t.Error("without a tier the eleventh is allowed: the default is prod")
	}
}

func last(decisions []decision) decision { return decisions[len(decisions)-1] }
