package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/stint-io/stint/internal/node"
)

// betweenCollections is the number of bytes that are allocated between two collections while the live heap is small.
//
// A limiter keeps little and allocates much: a few MB are live, and a check allocates some KB. Go's default (GOGC=100)
// collects whenever as much has been allocated as is live. Here that would be dozens of collections a second, each with
// fixed costs and with marking during the calls under way. So while the live heap is below this size, a collection waits
// for this many bytes. Above it Go's rule holds, and memory is at most twice the live heap. The price is resident memory:
// at most this much more, and at most a sixteenth of the available memory.
//
// Measured with one node, 64 callers and two cores that other programs used as well, so that only the processor time per
// check is meaningful: medians of three interleaved runs, in us, and the resident memory after the last of them.
//
//	                 JSON   grpc-go   gRPC, batch of 100 on 10,000 keys   resident
//	GOGC=100           78        82                                13.1      95 MB
//	GOGC=400           84        75                                11.2     212 MB
//	 64 MB             80        83                                12.5     129 MB
//	256 MB             77        74                                12.2     346 MB
//
// More than 64 MB gains no more than the difference between equal runs, and would still cost memory when a million keys
// are live.
const betweenCollections = 64 << 20

// collectLess makes the garbage collector follow this rule. A GOGC that the operator has set is not changed. GOMEMLIMIT
// still holds: near the limit the runtime collects as often as it must. A process that serves calls it once.
func collectLess() {
	if c := newCollections(); c != nil {
		c.settle()
	}
}

// collections sets the GOGC percentage after each collection. Only the runtime's goroutine for cleanups uses it.
type collections struct {
	between uint64 // bytes
	percent int    // in force
}

// newCollections returns nil if the operator has set GOGC.
func newCollections() *collections {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return &collections{between: min(betweenCollections, uint64(node.Memory())/16), percent: 100}
}

// settle sets the percentage for the current live heap, and arranges to be called after the next collection, which finds
// an unreachable object.
func (c *collections) settle() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := c.percentOf(live[0].Value.Uint64()); percent != c.percent {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	found := new([4]*collections) // large enough not to share a block with a reachable object
	runtime.AddCleanup(found, (*collections).settle, c)
}

// percentOf returns the GOGC for a live heap of this many bytes, in steps: each change stops the process for some
// microseconds.
func (c *collections) percentOf(live uint64) int {
	const (
		step  = 50
		least = 4 << 20 // the runtime treats a smaller heap as one of this size
	)
	percent := c.between * 100 / max(live, least)
	return int(max(100, percent/step*step))
}
