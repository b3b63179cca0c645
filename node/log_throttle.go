package node

import (
	"sync"
	"time"
)

// complainEvery is the least time between two log lines about the same persisting failure. Otherwise something tried
// four times a second while a node is down would fill a disk.
const complainEvery = 10 * time.Second

// logThrottle remembers what was logged recently. The zero value is ready; it may be used concurrently.
type logThrottle struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due reports whether it is time to complain about something, and assumes that the caller then does.
func (c *logThrottle) due(about string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, found := c.told[about]; found && now.Sub(last).Abs() < complainEvery {
		return false
	}
	if c.told == nil {
		c.told = make(map[string]time.Time)
	}
	for other, last := range c.told {
		if now.Sub(last).Abs() >= complainEvery {
			delete(c.told, other)
		}
	}
	c.told[about] = now
	return true
}
