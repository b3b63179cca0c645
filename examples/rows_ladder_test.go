package examples

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// The block of a key grows with repeated violations. The third failure in a row blocks for 10 s, each further one for
// twice as long, up to the maximum.
func TestSeedRow35TheBlockGrowsWithEachFailure(t *testing.T) {
	c := node(t)
	// Concurrent attempts can all fail, even after the first of them have blocked the key.
	var holds []string
	for range 8 {
		holds = append(holds, c.reserve(entry("ladder", "row 35")).HoldID)
	}
	const s = time.Second
	blocks := []time.Duration{0, 0, 10 * s, 20 * s, 40 * s, 45 * s, 45 * s} // they end before the holds do
	for i, block := range blocks {
		d := c.settle("holdId", holds[i], "failed", object{})
		tries := d.limit(t, "tries")
		level := uint32(max(0, i-1))
		if tries.LockoutLevel != level || tries.Used != 8 {
			t.Errorf("failure %d: level %d, used %d, want level %d, used 8", i+1, tries.LockoutLevel, tries.Used, level)
		}
		want := time.Time{}
		if block > 0 {
			want = d.DecidedAt.Add(block)
		}
		if !tries.BlockedUntil.Equal(want) {
			t.Errorf("failure %d at %v: blocked until %v, want %v", i+1, d.DecidedAt, tries.BlockedUntil, want)
		}
	}

	denied := c.reserve(entry("ladder", "row 35"))
	tries := denied.limit(t, "tries")
	if denied.Allowed || !slices.Equal(denied.DeniedBy, []string{"ladder/lockout"}) || denied.HoldID != "" ||
		tries.Used != 8 {
		t.Errorf("while it is blocked: %+v", denied)
	}
	if denied.RetryAfter == nil || !denied.DecidedAt.Add(time.Duration(*denied.RetryAfter)).Equal(tries.BlockedUntil) {
		t.Errorf("the wait is %v, and the block ends at %v", denied.RetryAfter, tries.BlockedUntil)
	}

	// One success ends the block and the ladder, and gives its own try back.
	tries = c.settle("holdId", holds[7], "success", object{}).limit(t, "tries")
	if tries.LockoutLevel != 0 || !tries.BlockedUntil.IsZero() || tries.Used != 7 {
		t.Errorf("after a success: %+v", tries)
	}
	if d := c.check("ladder", "row 35"); !d.Allowed {
		t.Errorf("after a success: %+v", d)
	}
}

// An attempt that is never settled counts as failed.
func TestSeedRow35AVanishedAttemptIsAFailure(t *testing.T) {
	c := node(t)
	var expires time.Time
	for range 3 {
		d := c.decide("Reserve", object{"check": object{"entries": []object{entry("ladder", "row 35 gone")}},
			"ttl": "0.050s"})
		expires = d.HoldExpiresAt
	}
	var limits []status
	await.Until(t, "the last hold has expired, by the server's time", func() bool {
		var at time.Time
		limits, at = c.get("ladder", "row 35 gone")
		return !at.Before(expires)
	})
	tries := find(t, limits, "tries")
	if tries.LockoutLevel != 1 || !tries.BlockedUntil.Equal(expires.Add(10*time.Second)) || tries.Used != 3 ||
		tries.Held != 0 {
		t.Errorf("three vanished, the last at %v: %+v", expires, tries)
	}
}

// After a time without failures the ladder starts from the beginning. Denials are not failures.
func TestSeedRow35TheLadderIsForgiven(t *testing.T) {
	c := node(t)
	fail := func() (status, time.Time) {
		t.Helper()
		var d decision
		await.Until(t, "an attempt is admitted, when the block is over", func() bool {
			d = c.reserve(entry("forgiving", "row 35"))
			return d.Allowed
		})
		d = c.settle("holdId", d.HoldID, "failed", object{})
		return d.limit(t, "tries"), d.DecidedAt
	}
	tries, at := fail()
	for tries.LockoutLevel == 0 {
		// Failures that are too far apart by the server's time are not in a row: that is no error, and another follows.
		before := at
		if tries, at = fail(); tries.LockoutLevel == 0 && at.Sub(before) < 200*time.Millisecond {
			t.Fatalf("the second failure in a row, %v after the first: %+v", at.Sub(before), tries)
		}
	}
	if tries.LockoutLevel != 1 || !tries.BlockedUntil.Equal(at.Add(100*time.Millisecond)) {
		t.Fatalf("the second failure, at %v: %+v", at, tries)
	}
	forgiven := tries.BlockedUntil.Add(200 * time.Millisecond)
	await.Until(t, "it is forgiven, by the server's time", func() bool {
		_, now := c.get("forgiving", "row 35")
		return !now.Before(forgiven)
	})
	if tries, _ := fail(); tries.LockoutLevel != 0 || !tries.BlockedUntil.IsZero() {
		t.Errorf("the first failure after that: %+v", tries)
	}
}

// The app unblocks a key, as after a solved challenge (row 93), and blocks one by hand.
func TestSeedRow93UnblockAndBlock(t *testing.T) {
	c := node(t)
	until := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	limits := c.adjust("ladder", "row 93", "blockUntil", until, "note", "abuse report 12")
	if tries := find(t, limits, "tries"); !tries.BlockedUntil.Equal(until) {
		t.Errorf("blocked until %v, want %v", tries.BlockedUntil, until)
	}
	if d := c.check("ladder", "row 93"); d.Allowed || d.limit(t, "tries").Used != 0 {
		t.Errorf("blocked, and: %+v", d)
	}
	c.adjust("ladder", "row 93", "unblock", object{})
	if d := c.check("ladder", "row 93"); !d.Allowed {
		t.Errorf("unblocked, and: %+v", d)
	}
}
