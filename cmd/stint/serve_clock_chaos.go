//go:build chaos

package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// now is the wall clock of serve. It is ahead of the machine's clock by the number of milliseconds in the file
// STINT_CHAOS_CLOCK. The file is read again every 50 ms, so that the clock can be made to jump while the process runs.
var now = jumpingClock(os.Getenv("STINT_CHAOS_CLOCK"))

// clockReadEvery is how long an offset from the file is used before the file is read again.
const clockReadEvery = 50 * time.Millisecond

// jumpingClock returns a clock that may be read concurrently: of several readers one reads the file again.
func jumpingClock(path string) func() time.Time {
	if path == "" {
		return time.Now
	}
	var readAt, offset atomic.Int64 // time of the last read, in nanoseconds since the Unix epoch; offset in nanoseconds
	return func() time.Time {
		t := time.Now()
		if last := readAt.Load(); t.UnixNano()-last >= int64(clockReadEvery) &&
			readAt.CompareAndSwap(last, t.UnixNano()) {
			offset.Store(int64(offsetIn(path)))
		}
		return stepped(t, time.Duration(offset.Load()))
	}
}

// offsetIn returns 0 if there is no file or no number in it.
func offsetIn(path string) time.Duration {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	millis, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(millis) * time.Millisecond
}

// stepped moves the wall reading of t and keeps its monotonic reading, as a step of the machine's clock does. Time.Add
// moves both. The second word of a time.Time with a monotonic reading is that reading, in nanoseconds.
func stepped(t time.Time, by time.Duration) time.Time {
	if by == 0 {
		return t
	}
	moved := t.Add(by)
	words := (*[2]int64)(unsafe.Pointer(&moved))
	words[1] -= int64(by)
	return moved
}
