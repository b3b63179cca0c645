package bubble

import (
	"sync"
	"time"
	"unsafe"
)

// Clock is the clock of one machine. Its wall reading can be stepped and run at a wrong rate. Its monotonic reading can
// stand still, as on a suspended machine. Reading it in a paused process blocks. So it must not be read under a lock: a
// bubble with a goroutine that waits for a mutex stands still.
type Clock struct {
	mu     sync.Mutex
	epoch  time.Time     // the bubble's time when the world began
	wall   time.Duration // ahead of the bubble's
	behind time.Duration // of the monotonic reading
	paused chan struct{} // closed when the process continues; nil while it runs
	still  time.Time     // since when the monotonic reading has stood still; zero while it runs
}

// NewClock returns a clock with a wall reading that far ahead of the bubble's.
func NewClock(wall time.Duration) *Clock { return &Clock{epoch: time.Now(), wall: wall} }

// Now is World.Now.
func (c *Clock) Now() time.Time {
	c.Stand()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	monotonic := t.Sub(c.epoch) - c.behind
	if !c.still.IsZero() {
		monotonic = c.still.Sub(c.epoch) - c.behind
	}
	return reading(t.Add(c.wall), monotonic)
}

// Step moves the wall reading.
func (c *Clock) Step(by time.Duration) { c.edit(func() { c.wall += by }) }

// Set puts the wall reading that far ahead of the bubble's.
func (c *Clock) Set(wall time.Duration) { c.edit(func() { c.wall = wall }) }

// Pause blocks the process until resume: every reader of its clock, and every Raft member that logs, as a member does
// before it gives up the lead or stands for election. The rest still runs but reaches no other process.
func (c *Clock) Pause() (resume func()) {
	paused := make(chan struct{})
	c.edit(func() { c.paused = paused })
	return func() {
		c.edit(func() {
			if c.paused == paused {
				c.paused = nil
			}
		})
		close(paused)
	}
}

// Stand waits while the process is paused.
func (c *Clock) Stand() {
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// Suspend stops the monotonic reading until Wake.
func (c *Clock) Suspend() { c.edit(func() { c.still = time.Now() }) }

// Slept is how long the machine was suspended.
func (c *Clock) Slept() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.still.IsZero() {
		return c.behind
	}
	return c.behind + time.Since(c.still)
}

// Wake ends Suspend.
func (c *Clock) Wake() {
	c.edit(func() {
		c.behind += time.Since(c.still)
		c.still = time.Time{}
	})
}

func (c *Clock) edit(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// reading returns a time.Time with unrelated wall and monotonic readings. Inside a bubble, time.Now has no monotonic
// reading at all.
func reading(wall time.Time, monotonic time.Duration) time.Time {
	const hasMonotonic, secondsTo1885 = 1 << 63, 2682288000 // from the start of 1885 to the Unix epoch
	words := [3]uint64{hasMonotonic | uint64(wall.Unix()+secondsTo1885)<<30 | uint64(wall.Nanosecond()),
		uint64(monotonic + time.Hour)}
	return *(*time.Time)(unsafe.Pointer(&words))
}
