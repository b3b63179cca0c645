package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// crabAnswers has commands after a key, by the milliseconds at which they are sent, with the answers of throttlecrab
// and of stint: allowed, limit, remaining, seconds until full, seconds until the request fits. Those of throttlecrab
// are what its function RateLimiter::rate_limit of version 0.4.40 returned for these arguments at these instants.
// There, with an interval i of period/count between units and a tolerance t of i*(max_burst-1), the first request finds
// an arrival time of now-i, a later one what is stored, at least now-t. It is admitted if the arrival time plus
// quantity*i is at most now+t; "until full" is the arrival time plus t.
var crabAnswers = []struct {
	key        string
	at         int
	arguments  string
	crab, ours string // ours "": the same
}{
	{"a", 0, "3 10 60", "1 3 2 12 0", "1 3 2 6 0"},
	{"a", 0, "3 10 60", "1 3 1 18 0", "1 3 1 12 0"},
	{"a", 0, "3 10 60", "1 3 0 24 0", "1 3 0 18 0"},
	{"a", 0, "3 10 60", "0 3 0 24 6", "0 3 0 18 6"},
	{"a", 5999, "3 10 60", "0 3 0 18 0", "0 3 0 13 1"},
	{"a", 6000, "3 10 60", "1 3 0 24 0", "1 3 0 18 0"},
	{"a", 6000, "3 10 60", "0 3 0 24 6", "0 3 0 18 6"},
	{"a", 6500, "3 10 60 2", "0 3 0 23 11", "0 3 0 18 12"},
	{"a", 60000, "3 10 60 3", "1 3 0 24 0", "1 3 0 18 0"},
	{"a", 60000, "3 10 60 0", "1 3 0 24 0", "1 3 0 18 0"},
	{"b", 0, "5 1 1 5", "1 5 0 8 0", "1 5 0 5 0"},
	{"b", 1500, "5 1 1 2", "0 5 1 6 0", "0 5 1 4 1"},
	{"b", 1500, "5 1 1", "1 5 0 7 0", "1 5 0 5 0"},
	{"c", 0, "2 5 1", "1 2 1 0 0", "1 2 1 1 0"},
	{"c", 0, "2 5 1", "1 2 0 0 0", "1 2 0 1 0"},
	{"c", 0, "2 5 1", "0 2 0 0 0", "0 2 0 1 1"},
	{"d", 0, "2 1 60", "1 2 1 60 0", ""},
	// More than max_burst never fits; throttlecrab names a wait all the same.
	{"e", 0, "5 1 1 6", "0 5 5 3 1", "0 5 5 0 -1"},
	// It admits more than max_burst here: without end for a max_burst of 1, and nearly twice as much after a pause.
	{"f", 0, "1 1 1", "1 1 0 0 0", "1 1 0 1 0"},
	{"f", 0, "1 1 1", "1 1 0 0 0", "0 1 0 1 1"},
	{"g", 0, "10 100 60", "1 10 9 5 0", "1 10 9 1 0"},
	{"g", 5300, "10 100 60 17", "1 10 0 10 0", "0 10 10 0 -1"},
	{"h", 0, "0 1 1", "ERR", ""},
	{"h", 0, "-1 1 1", "ERR", ""},
	{"h", 0, "1 0 1", "ERR", ""},
	{"h", 0, "1 1 0", "ERR", ""},
	{"h", 0, "1 1 1 -1", "ERR", ""},
	{"h", 0, "1 1", "ERR", ""},
}

func TestThrottleAnswersAsThrottlecrab(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	c := dial(t, s)
	for i, row := range crabAnswers {
		if i > 0 && crabAnswers[i-1].key == row.key {
			w.pass(time.Duration(row.at-crabAnswers[i-1].at)*time.Millisecond - time.Microsecond) // a call takes one
		}
		got := c.ask("THROTTLE " + row.key + " " + row.arguments)
		if strings.HasPrefix(got, "-ERR ") {
			got = "ERR"
		}
		got = strings.Trim(strings.ReplaceAll(got, ":", ""), "*[]")
		want := row.ours
		if want == "" {
			want = row.crab
		}
		if got != want {
			t.Errorf("%s at %d ms: THROTTLE %s: %s, want %s; throttlecrab: %s",
				row.key, row.at, row.arguments, got, want, row.crab)
		}
	}
}

// Where the two differ, they do so as docs/redis.md says: in the time until full, in the rounding of a wait, and where
// throttlecrab admits more than max_burst.
func TestThrottleDiffersAsThePageSays(t *testing.T) {
	for _, row := range crabAnswers {
		if row.ours == "" || strings.Contains("efg", row.key) {
			continue
		}
		var crab, ours [5]int
		for text, into := range map[string]*[5]int{row.crab: &crab, row.ours: &ours} {
			if _, err := fmt.Sscan(text, &into[0], &into[1], &into[2], &into[3], &into[4]); err != nil {
				t.Fatal(err)
			}
		}
		if late := ours[4] - crab[4]; [3]int(crab[:3]) != [3]int(ours[:3]) || late < 0 || late > 1 ||
			late == 1 && ours[0] == 1 {
			t.Errorf("%s at %d ms: %v, throttlecrab %v", row.key, row.at, ours, crab)
		}
	}
}
