//go:build !linux

package holder

import "time"

var began = time.Now()

// MachineClock is the machine's clocks. Where the first one stops while the machine sleeps, the wall clock alone ends
// leases then.
func MachineClock() Time {
	return Time{time.Since(began), time.Duration(time.Now().UnixNano())}
}
