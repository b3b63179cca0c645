package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

// Each bill is in exactly one walk: that of the time in which it became final, whatever the size of the pages.
func TestFinalBillsAreReadOnce(t *testing.T) {
	w := newWorld(t, billed(limit.Limit{Algorithm: limit.Unlimited}))
	const keys = 30
	var want, got []string
	walk := func(after, through limit.Time, most int) {
		q := FinalQuery{After: after, Through: through, Most: most, Wants: func(namespace, policy string) bool { return namespace == "default" && policy == "p" }}
		for {
			page, err := ReadFinalUsage(w.state, w.policies, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range page.Periods {
				got = append(got, fmt.Sprint(u.Key, (u.Start-origin)/limit.Time(hour), u.Units))
			}
			if q.From = page.Next; q.From == (UsagePlace{}) {
				return
			}
		}
	}
	final := limit.Time(hour + minute)
	for i := range keys {
		w.batch(origin+1, checkOf("p", fmt.Sprint("key ", i), uint64(1+i)))
	}
	w.batch(origin+final-1, checkOf("p", "other", 1))
	if walk(0, w.state.Time(), 7); len(got) != 0 {
		t.Errorf("before it is final: %v", got)
	}
	w.batch(origin+final, checkOf("p", "other", 1)) // in the second hour, as the one before
	walk(0, origin+final, 7)
	w.batch(origin+2*final, checkOf("p", "third", 1))
	walk(origin+final, origin+2*final, 1)
	for i := range keys {
		want = append(want, fmt.Sprint(fmt.Sprint("key ", i), 0, 1+i))
	}
	want = append(want, fmt.Sprint("other", 1, 2))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = nil
	q := FinalQuery{Through: w.state.Time(), Most: 100, Wants: func(string, string) bool { return false }}
	if page, err := ReadFinalUsage(w.state, w.policies, q); err != nil || len(page.Periods) > 0 {
		t.Errorf("of no policy: %v %v", err, page.Periods)
	}
}
