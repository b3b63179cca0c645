package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	awaits "github.com/stint-io/stint/internal/testing/await"
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
		{256 * mb, 300 * mb, 85},
		{256 * mb, 8000 * mb, 20},
		{32 * mb, 8 * mb, 400}, // on a machine with half a GB
		{32 * mb, 100 * mb, 30},
		{256 * mb, math.MaxUint64, 20},
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
	collectLess(t.Context())
	small := percent()
	if small <= 100 {
		t.Fatalf("GOGC %d with a small heap", small)
	}
	held := make([]byte, 2*betweenCollections)
	awaits.Until(t, "the percentage falls with a large live heap", func() bool { runtime.GC(); return percent() < 100 })
	runtime.KeepAlive(held)
}

func TestAnOperatorsGOGCIsLeftAlone(t *testing.T) {
	t.Setenv("GOGC", "77")
	if c := newCollections(); c != nil {
		t.Errorf("got %+v", c)
	}
}

// A quiet process returns the memory that it no longer needs.
func TestMemoryIsGivenBackWhenThereIsEnough(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		heap
		want bool
	}{
		{heap{objects: 10 * mb, live: 10 * mb, free: 1 * mb}, false},
		{heap{objects: 20 * mb, live: 10 * mb}, true},               // garbage
		{heap{objects: 10 * mb, live: 10 * mb, free: 9 * mb}, true}, // freed by a collection, and kept
		{heap{objects: 9 * mb, live: 10 * mb, free: 7 * mb}, false}, // stacks are live too
		{heap{objects: 800 * mb, live: 800 * mb, free: 40 * mb}, false},
		{heap{objects: 850 * mb, live: 800 * mb, free: 20 * mb}, true},
	} {
		if got := c.worth(); got != c.want {
			t.Errorf("%+v: %v", c.heap, got)
		}
	}
	is := func(worth bool, prepare func()) bool {
		for range 100 { // the runtime gives some of it back on its own, and other goroutines allocate
			prepare()
			if readHeap().worth() == worth {
				return true
			}
		}
		return false
	}
	if !is(true, func() {
		held := make([]byte, 4*worthBytes)
		for i := range held {
			held[i] = 1
		}
		runtime.GC()
	}) {
		t.Fatalf("%+v, after %d MB were freed", readHeap(), 4*worthBytes/mb)
	}
	if !is(false, debug.FreeOSMemory) {
		t.Errorf("%+v, after it was given back", readHeap())
	}
}
