package node

import (
	"time"

	"golang.org/x/sys/unix"
)

// machineSlept is how long this machine has been suspended since it started: the difference between the kernel's two
// clocks that are never set. 0: unknown.
func machineSlept() time.Duration {
	var before, boot, after unix.Timespec
	for range 8 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		if after.Nano()-before.Nano() < int64(time.Millisecond) { // else something came between the readings
			break
		}
	}
	return max(0, time.Duration(boot.Nano()-after.Nano()))
}
