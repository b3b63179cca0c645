package main

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"

	"golang.org/x/sys/unix"
)

// betweenCollections is how many bytes are allocated between two collections while the live heap is small.
//
// A limiter keeps little and allocates a lot: a few MB are live, and a check allocates some KB. Go's rule, a collection
// whenever as much is allocated as is live (GOGC=100), would collect dozens of times a second, and each collection has
// fixed costs and marks under the calls that are under way. So as long as the live heap is below this size, a collection
// waits for this many bytes; above it, Go's rule holds, and memory is at most twice what is live. The price is resident
// memory: at most this much more, and no more than a sixteenth of what there is.
//
// Measured with one node, 64 callers and two cores that other programs used as well, so that only processor time per check
// says anything: medians of three interleaved runs, in us, and resident memory behind the last of them.
//
//	                 JSON   grpc-go   gRPC, batch of 100 on 10,000 keys   resident
//	GOGC=100           78        82                                13.1      95 MB
//	GOGC=400           84        75                                11.2     212 MB
//	64 MB              80        83                                12.5     129 MB
//	256 MB             77        74                                12.2     346 MB
//
// More than 64 MB brings no more than these runs differ by themselves, and would still cost memory when a million keys
// are live.
const betweenCollections = 64 << 20

// collectLess has the garbage collector follow this rule. A GOGC that the operator has set is left alone. GOMEMLIMIT
// holds beside it: near the limit the runtime collects as often as it must. It is called once, by a process that serves.
func collectLess() {
	if c := newCollections(); c != nil {
		c.settle()
	}
}

// collections sets the percentage anew after each collection. The runtime's goroutine for cleanups is the only one that
// uses it.
type collections struct {
	between uint64 // bytes
	percent int    // in force
}

// newCollections is nil where the operator has set GOGC.
func newCollections() *collections {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return &collections{between: min(betweenCollections, memory()/16), percent: 100}
}

// settle sets the percentage for what is live now, and has itself called after the next collection: that is when
// something that nobody holds is found.
func (c *collections) settle() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := c.percentOf(live[0].Value.Uint64()); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	found := new([4]*collections) // not so small that it shares a block with something that is held
	runtime.AddCleanup(found, (*collections).settle, c)
}

// percentOf is the GOGC for a live heap of so many bytes, in steps: each change stops the process for some microseconds.
func (c *collections) percentOf(live uint64) int {
	const (
		step  = 50
		least = 4 << 20 // the runtime takes a smaller heap for one of this size
	)
	percent := c.between * 100 / max(live, least)
	return int(max(100, percent/step*step))
}

// memory is how many bytes the process may use: GOMEMLIMIT, the limit of its container, or the machine's.
func memory() uint64 {
	most := uint64(debug.SetMemoryLimit(-1))
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			most = min(most, limit)
		}
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = min(most, uint64(info.Totalram)*uint64(info.Unit))
	}
	return most
}
