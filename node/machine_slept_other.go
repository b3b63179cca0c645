//go:build !linux

package node

import "time"

// machineSlept is unknown here: on a machine that was suspended, windows last longer until the clock's time has been
// taken over slowly, or the node is restarted.
func machineSlept() time.Duration { return 0 }
