package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestCollectionsWaitForSomeMegabytesOrTheLiveHeap(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		between, live uint64
		want          int
	}{
		{256 * mb, 0, 6400}, // before the first collection the live heap is unknown
		{256 * mb, 4 * mb, 6400},
		{256 * mb, 64 * mb, 400},
		{256 * mb, 100 * mb, 250},
		{256 * mb, 200 * mb, 100},
		{256 * mb, 8000 * mb, 100},
		{32 * mb, 8 * mb, 400}, // on a machine with half a GB
		{256 * mb, math.MaxUint64, 100},
	} {
		if got := (&collections{between: c.between}).percentOf(c.live); got != c.want {
			t.Errorf("%d MB between, %d MB live: %d, want %d", c.between/mb, c.live/mb, got, c.want)
		}
	}
}

// The percentage follows the live heap from one collection to the next.
func TestPercentageFollowsTheLiveHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "")
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	runtime.GC()
	collectLess()
	small := percent()
	if small <= 100 {
		t.Fatalf("GOGC %d with a small heap", small)
	}
	held := make([]byte, betweenCollections)
	deadline := time.Now().Add(10 * time.Second)
	for percent() != 100 && time.Now().Before(deadline) {
		runtime.GC()
		runtime.Gosched()
	}
	if p := percent(); p != 100 {
		t.Errorf("GOGC %d with a live heap of %d MB", p, len(held)>>20)
	}
	runtime.KeepAlive(held)
}

func TestAnOperatorsGOGCIsLeftAlone(t *testing.T) {
	t.Setenv("GOGC", "77")
	if c := newCollections(); c != nil {
		t.Errorf("got %+v", c)
	}
}
