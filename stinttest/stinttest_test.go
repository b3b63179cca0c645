package stinttest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/stinttest"
)

const policies = `
policies:
  login:
    on_expire: commit
    deny_cache: 10s
    limits: [{name: hour, quota: 3, fixed_window: {period: 1h, anchor: first_hit}}]
  jobs:
    limits: [{name: running, quota: 1, concurrency: {}}]
  plan:
    limits: [{name: month, quota: 2, calendar: {unit: month, time_zone: UTC}}]
`

// spend asks for one unit, and says whether it was allowed.
func spend(t *testing.T, s *stinttest.Server, policy string) bool {
	t.Helper()
	d, err := s.Client().Check(t.Context(), client.Entry(policy, "k"))
	if err != nil {
		t.Fatal(err)
	}
	return d.Allowed
}

func TestTimePassesWhenTheTestSaysSo(t *testing.T) {
	s := stinttest.Start(t, policies)
	for i, want := range []bool{true, true, true, false, false} {
		if spend(t, s, "login") != want {
			t.Fatalf("attempt %d: allowed %v", i+1, !want)
		}
	}
	before := s.Now()
	s.Advance(58 * time.Minute)
	if spend(t, s, "login") {
		t.Error("allowed before the hour is over")
	}
	if after := s.Advance(2 * time.Minute); after.Sub(before) < time.Hour || after.Sub(before) > 2*time.Hour {
		t.Errorf("the clock went from %v to %v", before, after)
	}
	if !spend(t, s, "login") {
		t.Error("denied after the hour, by a denial that was kept or a clock that stood still")
	}
}

func TestHoldsBlocksAndCalendarsFollowTheClock(t *testing.T) {
	s := stinttest.Start(t, policies)
	job, err := s.Client().Attempt(t.Context(), client.Entry("jobs", "k"), time.Minute)
	if err != nil || !job.Allowed {
		t.Fatal(job, err)
	}
	if spend(t, s, "jobs") {
		t.Error("two jobs at once")
	}
	s.Advance(61 * time.Second)
	if d, err := s.Client().Get(t.Context(),
		&stintv1.GetRequest{Entries: client.Entry("jobs", "k").Entries}); err != nil || d.Limits[0].Used != 0 {
		t.Errorf("after the hold has expired: %v, %v", d, err)
	}
	if err := job.Commit(t.Context()); err == nil {
		t.Error("a hold is committed that has expired")
	}

	spend(t, s, "plan")
	spend(t, s, "plan")
	now := s.Now()
	if spend(t, s, "plan") {
		t.Error("three of two")
	}
	s.Advance(time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(now))
	if !spend(t, s, "plan") {
		t.Error("denied in the next month")
	}

	until := s.Now().Add(400 * 24 * time.Hour)
	if _, err := s.Client().Adjust(t.Context(), &stintv1.AdjustRequest{Policy: "plan", Key: "k",
		Op: &stintv1.AdjustRequest_BlockUntil{BlockUntil: timestamppb.New(until)}}); err != nil {
		t.Fatal(err)
	}
	s.Advance(399 * 24 * time.Hour)
	if spend(t, s, "plan") {
		t.Error("allowed while the key is blocked")
	}
	s.Advance(48 * time.Hour)
	if !spend(t, s, "plan") {
		t.Error("denied after the block")
	}
}

// Every language can call it.
func TestTheClockSpeaksJSON(t *testing.T) {
	s := stinttest.Start(t, policies)
	advance := func(body string) string {
		t.Helper()
		response, err := http.Post(s.URL+"/stint.test.v1.TestClock/Advance", "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text := make([]byte, 1000)
		n, _ := response.Body.Read(text)
		return fmt.Sprint(response.StatusCode, " ", string(text[:n]))
	}
	now := s.Now()
	s.Advance(now.Truncate(time.Hour).Add(time.Hour).Sub(now)) // the clock goes on by itself: no hour ends from here on
	day := s.Now().Add(24 * time.Hour).Format("2006-01-02T15:")
	if said := advance(`{"by":"86400s"}`); !strings.HasPrefix(said, "200 ") || !strings.Contains(said, day) {
		t.Errorf("a day: %s, want %s", said, day)
	}
	for _, by := range []string{"-1s", "315360001s"} {
		if said := advance(`{"by":"` + by + `"}`); !strings.Contains(said, "by: is ") ||
			!strings.Contains(said, "invalid_argument") {
			t.Errorf("%s: %s", by, said)
		}
	}
}

// A test of code that limits logins needs no running server and no waiting.
func ExampleStart() {
	_ = func(t *testing.T) {
		s := stinttest.Start(t, policies)
		for range 3 {
			if d, err := s.Client().Check(t.Context(), client.Entry("login", "ann")); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		if d, err := s.Client().Check(t.Context(), client.Entry("login", "ann")); err != nil || d.Allowed {
			t.Error("a fourth attempt:", d, err)
		}
		s.Advance(time.Hour)
		if d, err := s.Client().Check(t.Context(), client.Entry("login", "ann")); err != nil || !d.Allowed {
			t.Error("an hour later:", d, err)
		}
	}
}
