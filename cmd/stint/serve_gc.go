package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/stint-io/stint/node"
)

// betweenCollections is the number of bytes that are allocated between two collections while the live heap is small. Of a larger
// heap it is a fifth (liveShare).
//
// A limiter keeps little and allocates much: a few MB are live, and a check allocates some KB. Go's default (GOGC=100)
// collects whenever as much has been allocated as is live. That would be dozens of collections a second where little is live,
// and twice the memory where much is. The records of keys are in segments of 2 KB without pointers, so that marking a million of
// them takes 10 to 20 ms of processor time and ten million 130 ms: collecting sooner costs little. Measured while a million keys
// were made in batches of 500, on a node whose two cores other programs used as well:
//
//	           resident bytes a key   of the processor time
//	GOGC=100            253                   3 %
//	32 MB               170                   7 %
//	24 MB               154                   9 %
//
// Where little is live, a collection takes 1 to 2 ms, for 20 MB or about 5,000 checks.
const (
	betweenCollections = 20 << 20
	liveShare          = 5
)

// collectLess makes the garbage collector follow this rule, and returns memory while the process is quiet, until ctx ends. A GOGC that the operator has set is not changed. GOMEMLIMIT
// still holds: near the limit the runtime collects as often as it must. A process that serves calls it once.
func collectLess(ctx context.Context) {
	if c := newCollections(); c != nil {
		c.settle()
		go giveBack(ctx)
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
		least = 4 << 20 // the runtime treats a smaller heap as one of this size
		step  = 50
		fine  = 5 // below 100 %
	)
	percent := max(c.between*100/max(live, least), 100/liveShare)
	if percent < 100 {
		return int(percent / fine * fine)
	}
	return int(percent / step * step)
}

// A process that has become quiet collects once more and returns what it does not need, which Go does not do by itself: without
// allocations there is no collection for two minutes, and then a part of the heap is kept for the next allocations. So the
// memory of a million keys that have ended is back soon after they are swept.
const (
	quietFor   = 5 * time.Second
	quietBytes = 4 << 20 // allocated in that time at most
	worthBytes = 8 << 20 // that would be given back at least, and a sixteenth of the live heap
)

// giveBack runs until ctx ends.
func giveBack(ctx context.Context) {
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	last := readHeap()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := readHeap()
		if now.allocated-last.allocated < quietBytes && now.worth() {
			debug.FreeOSMemory()
		}
		last = now
	}
}

// heap is what the runtime says about its memory, in bytes.
type heap struct {
	allocated uint64 // since the process began
	objects   uint64 // live, and garbage that is not collected yet
	live      uint64 // found by the newest collection
	free      uint64 // resident, and in no use
}

func readHeap() heap {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return heap{s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()}
}

// worth reports whether there is enough to give back. The live heap includes the stacks.
func (h heap) worth() bool {
	garbage := h.objects - min(h.objects, h.live)
	return garbage+h.free >= max(worthBytes, h.live/16)
}
