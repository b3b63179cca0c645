package holder

import "time"

// lease is a lease that is being spent. The lock of its key's stripe guards it.
type lease[A any] struct {
	number       uint64        // by which the owner knows it (Ask.Number)
	units, spent uint64        // spent is at most units
	over         bool          // it must not be spent any more, and its keeper returns it
	asked        Time          // before the owner was asked
	stops        Time          // it must not be spent once either clock is that far
	seen         time.Duration // the latest wall clock of a check, or of asked; an earlier one was set back
	revision     uint64        // of the policies under which it was asked for
	answer       A             // the owner's answer, with which the lease answers every check
}

// ended reports whether the lease must not be spent at an instant.
func (l *lease[A]) ended(at Time) bool {
	return at.Boot >= l.stops.Boot || //mutant:lease-outlives-a-sleep
		at.Wall >= l.stops.Wall || //mutant:lease-outlives-its-wall-clock
		at.Wall < l.seen-readLate //mutant:lease-survives-a-clock-set-back
}

// returned returns the request that returns the lease.
func (l *lease[A]) returned(name Name, holder string) Ask {
	return Ask{Name: name, Holder: holder, Returned: l.number, Spent: l.spent}
}

// ebbs reports whether it is time for another lease.
func (l *lease[A]) ebbs(now time.Duration) bool {
	return l.units-l.spent <= l.units/4 || now-l.asked.Boot >= (l.stops.Boot-l.asked.Boot)*3/5
}

// Terms are what is known of the leases of a policy.
type Terms struct {
	Units    uint64        // most of one lease
	For      time.Duration // life of a lease
	Revision uint64        // of the policies. A lease of another one is not spent
}

// LifeMax is how long a lease lives at most.
const LifeMax = 10 * time.Second
