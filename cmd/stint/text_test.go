package main

import (
	"math"
	"testing"
	"time"
)

// What a bucket gets back in a day each is at rest after more years than a time.Duration holds.
func TestAWaitOfCenturiesIsToldAsOne(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		math.MaxInt64:             "more than 290 years",
		math.MaxInt64 - 1:         "more than 290 years",
		1500*time.Microsecond + 1: "2ms",
	} {
		if got := waitText(wait); got != want {
			t.Errorf("%d: %q, want %q", wait, got, want)
		}
	}
	for wait, want := range map[time.Duration]string{
		math.MaxInt64:           "more than 290 years",
		time.Second + 1:         "2s",
		1500 * time.Microsecond: "1.5ms",
	} {
		if got := roughly(wait); got != want {
			t.Errorf("%d: %q, want %q", wait, got, want)
		}
	}
}
