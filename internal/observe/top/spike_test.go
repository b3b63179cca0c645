package top

import "testing"

// A key has a spike if it is denied a hundred times in a minute, and five times as often as before.
func TestSpikes(t *testing.T) {
	start := 1_000_000 * hour
	board := NewBoard(NewBudget(0), start)
	deny := func(minuteNumber int64, key string, n int) {
		for i := range n {
			board.Advance(start + minuteNumber*minute + int64(i)*minute/int64(n))
			board.Add("ns", "p", key, true, 0)
		}
	}
	for m := range int64(9) {
		deny(m, "busy", 50)
		deny(m, "calm", 2)
	}
	for _, c := range []struct {
		key  string
		n    int
		want bool
	}{{"busy", 249, false}, {"busy", 250, true}, {"calm", 99, false}, {"calm", 100, true}, {"new", 100, true}} {
		board := *board
		again := *board.tables[name{"ns", "p"}]
		board.tables, board.newestTable = map[name]*Table{{"ns", "p"}: &again}, nil
		again.minutes.windows = append([]*window(nil), again.minutes.windows...)
		again.tens.windows = append([]*window(nil), again.tens.windows...)
		for range c.n {
			board.Advance(start + 9*minute + 1)
			board.Add("ns", "p", c.key, true, 0)
		}
		if got := board.Spikes(start + 10*minute - 1); len(got) > 0 {
			t.Errorf("before the minute has ended: %+v", got)
		}
		got := board.Spikes(start + 10*minute)
		if c.want != (len(got) == 1 && got[0].Key == c.key && got[0].Denials == uint64(c.n) &&
			got[0].End == start+10*minute && got[0].Namespace == "ns") ||
			!c.want && len(got) > 0 {
			t.Errorf("%s denied %d times: %+v", c.key, c.n, got)
		}
		if got := board.Spikes(start + 11*minute); len(got) > 0 {
			t.Errorf("a minute later: %+v", got)
		}
	}
}
