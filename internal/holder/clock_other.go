//go:build !linux

package holder

import "time"

var began = time.Now()

// readBoot reads a clock that may stop while the machine sleeps. The wall clock alone ends leases then.
func readBoot() time.Duration { return time.Since(began) }
