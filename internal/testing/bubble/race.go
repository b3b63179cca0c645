//go:build race

package bubble

import "runtime"

// With more processors, Go 1.26 may use the race context of a bubble's timers on two threads at once, and crash in
// raceacquirectx. The race detector sees races on one processor too: it compares what must happen before what.
func init() { runtime.GOMAXPROCS(1) }
