package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The parts of a counter besides the states of its limits. Most counters have none of them.
//
// How a request is decided and counted, for the author of a new operation:
//
//	d := e.newDecision()
//	err := e.decideEntries(r, Check, &d) // asks every limit; e.charges has each entry's counter, limits and policy
//	e.deny(r, Check, &d)                 // denied: the statuses show the current state, the waits are exact
//	err = e.charges.roomForHolds()       // allowed: before holds are put into the counters
//	e.count(&d)                          // the keys get the new states; d.Index is set
//	e.putHolds(r, &d, hold{...})         // a hold of each entry's cost in its counter
//	e.showExtras(&d)                     // at the end: Held, LockoutLevel, BlockedUntil and Blocked
//
// How a counter is changed in other ways: decideEntries with Get, or with another op that decides nothing, puts it into
// e.charges, with expired holds already ended. Then call c.endHold or the like, then e.touch(c), so that it is written,
// then e.statuses(&d), which makes d.Limits show the current state, as Get does. Entries with Limits != nil are inline.
// A Settle that is inline, or names a policy or tier that no longer exists, uses the limits in the counter's record.

// counterExtras is the part of a counter besides its limits. The methods that only read it take nil for empty extras.
type counterExtras struct {
	holds     []hold    // in order of (expires, name)
	leasedSum uint64    // of the leases among them
	sums      []heldSum // of the other holds, one for each limit; nil if not computed
	ladder    ladder
	block     limit.Time       // end of a block by hand; 0 if there is none
	override  *policy.Override // never changed, only replaced; the evaluation never sees an expired one
}

// extra returns the counter's extras, allocated if necessary, for a change.
func (c *counter) extra() *counterExtras {
	if c.extras == nil {
		c.extras = &counterExtras{}
	}
	return c.extras
}

// restart begins a new generation of a limit at an instant: units taken at or before it are not given back. Of the
// holds of that instant, only those added after this call are fresh.
func (c *counter) restart(l *counted, at limit.Time) {
	l.since = at
	c.extras.forgetSums()
	own := false // copied and future share the holds
	for i := range c.extras.openHolds() {
		if l.counts(&c.extras.holds[i]) {
			if !own {
				c.extras.holds, own = slices.Clone(c.extras.holds), true
			}
			h := &c.extras.holds[i]
			h.uncounted = append(slices.Clip(h.uncounted), l.name)
		}
	}
}
