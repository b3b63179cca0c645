package sim

import (
	"sync"
	"time"
	"unsafe"
)

// clock is the clock of one machine: its wall reading can be stepped and run at a wrong rate, its monotonic reading can
// stand still, as that of a suspended machine does, and both stand still for a paused process.
type clock struct {
	mu     sync.Mutex
	epoch  time.Time     // the bubble's time when the world began
	wall   time.Duration // ahead of the bubble's
	behind time.Duration // of the monotonic reading
	paused time.Time     // the bubble's time that is shown; zero: it runs
	still  time.Time     // since when the monotonic reading stands still; zero: it runs
}

func newClock(wall time.Duration) *clock { return &clock{epoch: time.Now(), wall: wall} }

// now is what World.Now is given.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	if !c.paused.IsZero() {
		t = c.paused
	}
	monotonic := t.Sub(c.epoch) - c.behind
	if !c.still.IsZero() {
		monotonic = c.still.Sub(c.epoch) - c.behind
	}
	return reading(t.Add(c.wall), monotonic)
}

func (c *clock) step(by time.Duration) { c.edit(func() { c.wall += by }) }
func (c *clock) set(wall time.Duration) {
	c.edit(func() { c.wall = wall })
}
func (c *clock) pause()  { c.edit(func() { c.paused = time.Now() }) }
func (c *clock) resume() { c.edit(func() { c.paused = time.Time{} }) }

// suspend has the monotonic reading stand still until wake.
func (c *clock) suspend() { c.edit(func() { c.still = time.Now() }) }
func (c *clock) wake() {
	c.edit(func() {
		c.behind += time.Since(c.still)
		c.still = time.Time{}
	})
}

func (c *clock) edit(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// reading makes a time.Time with a wall and a monotonic reading that have nothing to do with each other. Inside a bubble
// time.Now has no monotonic reading at all.
func reading(wall time.Time, monotonic time.Duration) time.Time {
	const hasMonotonic, secondsTo1885 = 1 << 63, 2682288000 // from the start of 1885 to the Unix epoch
	words := [3]uint64{hasMonotonic | uint64(wall.Unix()+secondsTo1885)<<30 | uint64(wall.Nanosecond()),
		uint64(monotonic + time.Hour)}
	return *(*time.Time)(unsafe.Pointer(&words))
}
