package examples

import (
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // so that the test knows New York on any machine
)

// The number of probes that one operator may commission: a quota that never comes back by itself, with a unit back for
// each return.
func TestSeedRow25ALifetimeQuotaWithRelease(t *testing.T) {
	c := node(t)
	commission := func(probe int) decision {
		t.Helper()
		return c.decide("Check", object{"entries": []object{entry("probes", "row 25")},
			"idempotencyId": "row 25 probe " + strconv.Itoa(probe)})
	}
	var out []string
	for probe := range 3 {
		d := commission(probe)
		if !d.Allowed || !d.limit(t, "commissioned").ResetAt.IsZero() {
			t.Fatalf("probe %d: %+v", probe, d)
		}
		out = append(out, d.DecisionID)
	}
	if d := commission(3); d.Allowed || d.RetryAfter != nil || d.DecisionID != "" {
		t.Errorf("a fourth: %+v", d)
	}
	if d := commission(0); !d.Allowed || !d.Replayed {
		t.Errorf("the first again, by its id: %+v", d)
	}
	for range 2 { // a return that is reported twice is one return
		if used := c.settle("decisionId", out[1], "cancel", object{}).limit(t, "commissioned").Used; used != 2 {
			t.Errorf("after a return %d are used, want 2", used)
		}
	}
	if d := commission(3); !d.Allowed || d.limit(t, "commissioned").Remaining != 0 {
		t.Errorf("a fourth, after a return: %+v", d)
	}
	if d := commission(4); d.Allowed {
		t.Errorf("a fifth, after one return: %+v", d)
	}
}

// The same for a caller that keeps no decisions: one unit less, once, under the id of the return.
func TestSeedRow25AReturnByHandIsDoneOnce(t *testing.T) {
	c := node(t)
	c.check("probes", "row 25 by hand", "cost", 3)
	for range 2 {
		limits := c.adjust("probes", "row 25 by hand", "addUsed", "-1", "idempotencyId", "row 25 return 1", "note",
			"it came back")
		if used := find(t, limits, "commissioned").Used; used != 2 {
			t.Errorf("after one return %d are used, want 2", used)
		}
	}
	if d := c.check("probes", "row 25 by hand"); !d.Allowed {
		t.Errorf("a probe after a return: %+v", d)
	}
	if d := c.check("probes", "row 25 by hand"); d.Allowed {
		t.Errorf("a second one: %+v", d)
	}
}

// A contract's month ends at midnight of the 15th in the customer's zone, whatever its offset is then.
func TestBillingMonthEndsOnThe15thInNewYork(t *testing.T) {
	c := node(t)
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	d := c.check("exports", "month")
	now := d.DecidedAt.In(newYork)
	start := time.Date(now.Year(), now.Month(), 15, 0, 0, 0, 0, newYork)
	if start.After(now) {
		start = time.Date(now.Year(), now.Month()-1, 15, 0, 0, 0, 0, newYork)
	}
	end := time.Date(start.Year(), start.Month()+1, 15, 0, 0, 0, 0, newYork)
	month := d.limit(t, "month")
	if !month.WindowStart.Equal(start) || !month.ResetAt.Equal(end) {
		t.Errorf("at %v the month is from %v to %v, want %v to %v", now, month.WindowStart, month.ResetAt, start, end)
	}
	denied := c.check("exports", "month", "cost", 1000)
	if denied.Allowed || denied.RetryAfter == nil ||
		!denied.DecidedAt.Add(time.Duration(*denied.RetryAfter)).Equal(end) {
		t.Errorf("a denial at %v says to wait %v, and the month ends at %v", denied.DecidedAt, denied.RetryAfter, end)
	}
}
