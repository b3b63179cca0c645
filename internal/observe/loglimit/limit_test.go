package loglimit

import (
	"strconv"
	"testing"
	"time"
)

// A flood about one subject gets the lines of that subject, then their number, and takes none from another.
func TestAFloodIsBounded(t *testing.T) {
	l, now := Limit{Most: 10, Per: 10 * time.Second}, time.Unix(1000, 0)
	flood := func() (allowed, left int) {
		for range 1000 {
			n, ok := l.Allow("flood", now)
			if left += n; ok {
				allowed++
			}
		}
		return allowed, left
	}
	if allowed, left := flood(); allowed != 10 || left != 0 {
		t.Errorf("%d lines, %d left out before them", allowed, left)
	}
	if _, ok := l.Allow("other", now); !ok {
		t.Error("a flood about one subject keeps another out")
	}
	now = now.Add(10 * time.Second)
	if allowed, left := flood(); allowed != 10 || left != 990 {
		t.Errorf("later %d lines, %d left out before them", allowed, left)
	}
	now = now.Add(-time.Hour) // the clock was set back
	if _, ok := l.Allow("flood", now); !ok {
		t.Error("a clock that was set back silences the log")
	}
}

// However many subjects there are, the memory and the lines of new ones are bounded, until the old ones are forgotten.
func TestSubjectsAreBounded(t *testing.T) {
	l, now := Limit{Most: 10, Per: 10 * time.Second}, time.Unix(1000, 0)
	count := func() (allowed int) {
		for i := range 2 * subjectsMax {
			if _, ok := l.Allow(strconv.Itoa(i), now); ok {
				allowed++
			}
		}
		return allowed
	}
	if allowed := count(); allowed != subjectsMax+10 || len(l.subjects) != subjectsMax+1 {
		t.Errorf("%d lines about %d subjects", allowed, len(l.subjects))
	}
	now = now.Add(10 * time.Second)
	if _, ok := l.Allow("new", now); !ok || len(l.subjects) != 1 {
		t.Errorf("allowed: %v; %d subjects are remembered", ok, len(l.subjects))
	}
}
