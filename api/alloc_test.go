package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The allocations of a check in this package, so that a change cannot raise them by accident.
func TestAllocationsOfACheck(t *testing.T) {
	m := aCheck()
	set := testPolicies()
	r, err := checkRequest(set, m)
	if err != nil {
		t.Fatal(err)
	}
	d := allow(r).Decision
	s := limitService{&Config{Sealer: func() *shard.Sealer { return testSealer }}}
	answer := &stintv1.CheckResponse{Decision: s.answer(set, m, &r, &d)}
	room := make([]byte, 0, 4096)
	for name, c := range map[string]struct {
		most float64
		work func()
	}{
		// with the message and its input
		"read JSON":          {6, func() { wire.UnmarshalJSON([]byte(perIP), &stintv1.CheckRequest{}) }},
		"write JSON":         {0, func() { wire.MarshalJSON(room, answer) }},
		"message to check":   {1, func() { checkRequest(set, m) }},
		"decision to answer": {3, func() { s.answer(set, m, &r, &d) }},
	} {
		if n := testing.AllocsPerRun(100, c.work); n > c.most {
			t.Errorf("%s allocates %v times, more than %v", name, n, c.most)
		}
	}
}

// A whole call through the fast path, without net/http's connection and with a Decider that does nothing.
func TestAllocationsOfACall(t *testing.T) {
	set := testPolicies()
	a := newAPI(Config{Decider: quickDecider{}, Revision: func() *policy.Revision {
		return &policy.Revision{Version: 1, Set: set}
	},
		Sealer: func() *shard.Sealer { return testSealer }, Ready: func() error { return nil },
		Metrics: http.NotFoundHandler()})
	call := func() {
		r := httptest.NewRequest("POST", "/stint.v1.LimitService/Check", strings.NewReader(perIP))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(httptest.NewRecorder(), r)
	}
	const most = 50 // 22 of them are httptest's, and there are a few more when the race detector empties pools
	if n := testing.AllocsPerRun(100, call); n > most {
		t.Errorf("a call allocates %v times, more than %d", n, most)
	}
}

// allocatesMore reports whether one call allocates more often than another, and how often both do. The race detector
// empties pools at random, and so does the collector, so a difference counts that is there ten times in a row.
func allocatesMore(one, other func()) (more bool, times, than float64) {
	for range 10 {
		times, than = testing.AllocsPerRun(200, one), testing.AllocsPerRun(200, other)
		if times <= than {
			return false, times, than
		}
	}
	return true, times, than
}
