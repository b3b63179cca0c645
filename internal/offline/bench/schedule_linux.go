package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepUntil sleeps with the precision of the kernel's timers. Go's own timers are as coarse as a millisecond while a
// process idles, which would send a rate above a thousand calls per second in bunches.
func sleepUntil(due time.Time) {
	for wait := time.Until(due); wait > 0; wait = time.Until(due) {
		if wait > 10*time.Millisecond {
			time.Sleep(wait - 5*time.Millisecond)
			continue
		}
		request := unix.NsecToTimespec(int64(wait))
		if unix.Nanosleep(&request, nil) != nil {
			continue // interrupted by a signal: read the clock again
		}
	}
}
