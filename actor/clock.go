package actor

import (
	"time"

	"github.com/stint-io/stint/limit"
)

// clock is shard time while an epoch is open (SEMANTICS R18): monotonic time since the epoch was opened, slewed towards
// the reference. It runs on without one. It never jumps and never runs backwards, whatever the machine's clock and the
// reference do.
type clock struct {
	from  time.Time     // the machine's clock when shown and owed were found
	shown time.Time     // shard time then
	owed  time.Duration // what shard time was behind the reference then; negative: ahead
}

// slewMost is the part of the time that passes by which shard time may run fast or slow: 500 ppm.
const slewMost = 2000

// set begins anew at the reference. It is taken without its monotonic reading, by which Sub would go, here and below.
func (c *clock) set(wall, reference time.Time) { *c = clock{from: wall, shown: reference.Round(0)} }

// read is shard time at a reading of the machine's clock, from its monotonic part.
func (c *clock) read(wall time.Time) time.Time {
	passed := wall.Sub(c.from)
	most := max(0, passed) / slewMost
	return c.shown.Add(passed + min(max(c.owed, -most), most))
}

// now is shard time as stamps have it.
func (c *clock) now(wall time.Time) limit.Time { return limit.Time(c.read(wall).UnixMicro()) }

// follow slews towards a reference from here on, and returns how far shard time is behind it.
func (c *clock) follow(wall, reference time.Time) (behind time.Duration) {
	shown := c.read(wall)
	*c = clock{from: wall, shown: shown, owed: reference.Round(0).Sub(shown)}
	return c.owed
}

// runFree goes on without a reference.
func (c *clock) runFree(wall time.Time) { *c = clock{from: wall, shown: c.read(wall)} }

// steps notices that the machine's clock was set, or that the machine was suspended: its two readings part. What was
// measured before that about the clock says nothing about it any more.
type steps struct {
	seen    time.Time // the newest reading
	stepped time.Time // the first reading after the newest step
}

// stepMost is how far the readings may part between two looks without a step: a clock that is being slewed is no step.
const stepMost = 50 * time.Millisecond

// measuredWithin is how old a measurement of the reference may be (SEMANTICS R18).
const measuredWithin = 5 * time.Second

// recent reports whether the clock may have stepped since the oldest measurement that counts was made.
func (s *steps) recent(wall time.Time) bool {
	if !s.seen.IsZero() {
		if apart := wall.Round(0).Sub(s.seen.Round(0)) - wall.Sub(s.seen); apart.Abs() > stepMost {
			s.stepped = wall
		}
	}
	s.seen = wall
	return !s.stepped.IsZero() && wall.Sub(s.stepped) < measuredWithin
}
