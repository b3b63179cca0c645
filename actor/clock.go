package actor

import (
	"time"

	"github.com/stint-io/stint/limit"
)

// clock is shard time while an epoch is open (R18): monotonic time since the epoch was opened, slewed toward the
// reference. It keeps running without a reference. It never jumps and never runs backwards, regardless of the machine's
// clock and the reference.
type clock struct {
	from  time.Time     // the machine's clock when shown and owed were set
	shown time.Time     // shard time then
	owed  time.Duration // how far shard time was behind the reference then; negative if ahead
}

// slewMost limits the slew: shard time may run fast or slow by one part in slewMost, 500 ppm.
const slewMost = 2000

// set restarts the clock at the reference. The reference's monotonic reading is removed, because Sub would use it here
// and below.
func (c *clock) set(wall, reference time.Time) { *c = clock{from: wall, shown: reference.Round(0)} }

// read returns shard time at a reading of the machine's clock, from its monotonic part.
func (c *clock) read(wall time.Time) time.Time {
	passed := wall.Sub(c.from)
	most := max(0, passed) / slewMost
	return c.shown.Add(passed + min(max(c.owed, -most), most)) //mutant:shard-time-jumps
}

// now returns shard time in the form that stamps use.
func (c *clock) now(wall time.Time) limit.Time { return limit.Time(c.read(wall).UnixMicro()) }

// follow slews toward a reference from here on, and returns how far shard time is behind it.
func (c *clock) follow(wall, reference time.Time) (behind time.Duration) {
	shown := c.read(wall)
	*c = clock{from: wall, shown: shown, owed: reference.Round(0).Sub(shown)}
	return c.owed
}

// runFree continues without a reference.
func (c *clock) runFree(wall time.Time) { *c = clock{from: wall, shown: c.read(wall)} }

// ownTime is the reference of an only voter, which has no other clock to compare with: its machine's clock as first
// read, plus the time that has passed since, including the time that the machine was suspended. Setting the clock lets
// no time pass: ownTime is slewed toward the new time and does not jump, so no window opens early (S3).
type ownTime struct {
	clock clock
	slept time.Duration // the part of the suspended time that is counted already
}

// at returns the reference at a reading of the machine's clock. slept is how long the machine has been suspended since
// it was started.
func (o *ownTime) at(wall time.Time, slept time.Duration) time.Time {
	if o.clock.from.IsZero() {
		o.clock.set(wall, wall)
		o.slept = slept
	}
	if more := slept - o.slept; more > stepMost {
		o.clock.shown = o.clock.shown.Add(more)
		o.slept = slept
	}
	o.clock.follow(wall, wall)
	return o.clock.read(wall)
}

// clockSteps detects that the machine's clock was set, or that the machine was suspended: then its two readings
// diverge. Earlier measurements of the clock are no longer valid after that.
type clockSteps struct {
	seen    time.Time // the newest reading
	stepped time.Time // the first reading after the newest step
}

// stepMost is how far the readings may diverge between two calls without counting as a step, because a clock may be
// slewed.
const stepMost = 50 * time.Millisecond

// measuredWithin is the maximum age of a measurement of the reference (R18).
const measuredWithin = 5 * time.Second

// recent reports whether the clock may have stepped since the oldest valid measurement was made.
func (s *clockSteps) recent(wall time.Time) bool {
	if !s.seen.IsZero() {
		if apart := wall.Round(0).Sub(s.seen.Round(0)) - wall.Sub(s.seen); apart.Abs() > stepMost {
			s.stepped = wall
		}
	}
	s.seen = wall
	return !s.stepped.IsZero() && wall.Sub(s.stepped) < measuredWithin
}
