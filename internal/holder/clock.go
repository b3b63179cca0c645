package holder

import (
	"sync/atomic"
	"time"
)

const (
	// bootFor is how long a reading of the boot clock is good for.
	bootFor = time.Millisecond
	// stepLeast is how far the wall clock and the monotonic one may part before the boot clock is read again.
	stepLeast = 10 * time.Microsecond
)

// Time is an instant on both clocks of a holder.
type Time struct {
	Boot time.Duration // since some instant, also while the machine sleeps
	Wall time.Duration // since 1970
}

// clock is the machine's clocks. It reads the boot clock once in a millisecond, and adds what the monotonic clock has
// counted since. They part only when the machine sleeps, and then the kernel moves the wall clock too, so a reading is
// good only while the wall clock has not parted from the monotonic one.
type clock struct {
	boot func() time.Duration
	now  func() (wall, mono time.Duration) // wall since 1970, mono since MachineClock was called
	last atomic.Pointer[reading]           // nil before the first reading
}

// reading is an instant on all three clocks.
type reading struct{ boot, wall, mono time.Duration }

// MachineClock returns a function that reads the machine's clocks, in about 0.1 us. Any number of goroutines may call
// it.
func MachineClock() func() Time {
	began := time.Now()
	c := clock{boot: readBoot, now: func() (wall, mono time.Duration) {
		now := time.Now()
		return time.Duration(now.UnixNano()), now.Sub(began)
	}}
	return c.read
}

// read returns the present instant. A new reading counts only if both clocks were read within a millisecond, so that a
// pause between them does not become a part of the boot time; after eight attempts in vain it takes the last.
func (c *clock) read() Time {
	wall, mono := c.now()
	r := c.last.Load()
	if r != nil {
		parted := (wall - r.wall) - (mono - r.mono)
		if mono-r.mono < bootFor && parted < stepLeast && -parted < stepLeast { //mutant:sleep-unseen-for-a-moment
			return Time{r.boot + mono - r.mono, wall}
		}
	}
	r = &reading{}
	for range 8 {
		r.boot = c.boot()
		r.wall, r.mono = c.now()
		if r.mono-mono < time.Millisecond { // else something came between the readings
			break
		}
		mono = r.mono
	}
	c.last.Store(r)
	return Time{r.boot, r.wall}
}
