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

// now is the wall clock of serve, ahead of the machine's by what the file STINT_CHAOS_CLOCK says in milliseconds. The
// file is read again every 50 ms, so a clock can be made to jump while the process runs.
var now = jumpingClock(os.Getenv("STINT_CHAOS_CLOCK"))

// clockReadEvery is how long what was read from the file is believed.
const clockReadEvery = 50 * time.Millisecond

func jumpingClock(path string) func() time.Time {
	if path == "" {
		return time.Now
	}
	var readAt, offset atomic.Int64 // nanoseconds since the Unix epoch by the machine's clock; nanoseconds
	return func() time.Time {
		t := time.Now()
		if last := readAt.Load(); t.UnixNano()-last >= int64(clockReadEvery) && readAt.CompareAndSwap(last, t.UnixNano()) {
			offset.Store(int64(offsetIn(path)))
		}
		return stepped(t, time.Duration(offset.Load()))
	}
}

// offsetIn answers 0 where there is no file or no number in it.
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

// stepped moves the wall reading of t and leaves its monotonic one, as a step of the machine's clock does. Time.Add
// moves both. The second word of a time.Time that has a monotonic reading is that reading, in nanoseconds.
func stepped(t time.Time, by time.Duration) time.Time {
	if by == 0 {
		return t
	}
	moved := t.Add(by)
	words := (*[2]int64)(unsafe.Pointer(&moved))
	words[1] -= int64(by)
	return moved
}
