package node

import (
	"sync"
	"time"
)

// complainEvery is between two lines in the log about the same thing that still does not work. What is tried four times
// a second, for as long as a node is down, would fill a disk otherwise.
const complainEvery = 10 * time.Second

// complaints remembers what the log was told of lately. The zero value is ready; it may be used concurrently.
type complaints struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due tells whether it is time to complain about something, and takes it that this is done.
func (c *complaints) due(about string, now time.Time) bool {
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
