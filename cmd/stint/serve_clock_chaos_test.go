//go:build chaos

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A clock that jumps by an hour shows another hour on the wall, but the same number of seconds has passed.
func TestAJumpMovesTheWallClockOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	clock := jumpingClock(path)
	before := clock()
	if err := os.WriteFile(path, []byte("3600000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after := clock()
	for late := time.Now().Add(5 * time.Second); after.UnixNano()-before.UnixNano() <
		int64(time.Hour); after = clock() {
		if time.Now().After(late) {
			t.Fatal("the clock did not jump")
		}
	}
	if elapsed := after.Sub(before); elapsed < 0 || elapsed > 5*time.Second {
		t.Errorf("%v passed by the monotonic reading", elapsed)
	}
	if ahead := time.Until(after.Round(0)); ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("the wall clock is %v ahead", ahead)
	}
}
