package shard

import (
	"cmp"
	"slices"
	"strings"

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

// maxHolds bounds the open holds on one counter and thereby its record. Each hold has about 32 bytes, so together they
// are half an entry. Every batch that touches the key reads and writes all of them.
const maxHolds = 4096

// counterExtras is the part of a counter besides its limits. The methods that only read it take nil for empty extras.
type counterExtras struct {
	holds     []hold    // in order of (expires, name)
	leasedSum uint64    // of the leases among them
	sums      []heldSum // of the other holds, one for each limit; nil if not computed
	ladder    ladder
	block     limit.Time       // end of a block by hand; 0 if there is none
	override  *policy.Override // never changed, only replaced; the evaluation never sees an expired one
}

// hold is units that were taken by a Reserve, or by a part of an operation on several shards, and that may come back.
type hold struct {
	name string // holdName or operationHold; unique in a counter
	// expires is when it ends; for a remote hold, when home is expected to end it; limit.MaxTime if at any time.
	expires  limit.Time
	taken    limit.Time // shard time of the decision
	cost     uint64
	onExpire policy.OnExpire // never OnExpireDefault
	remote   bool            // does not expire: another shard decides how it ends
	// fresh means that the hold was taken after the since of the same instant. A batch has one instant, and units taken
	// after a reset in the same batch must still come back.
	fresh bool
	// spans means that the request had keys of other slots, too. A slot cannot move while one is open.
	spans bool
	// lease means that the units are leased: no state contains them, and all are counted when it expires (lease.go).
	lease bool
	// uncounted names the limits that did not count the hold, and to which it gives nothing back: limits in shadow that
	// would have denied it, and concurrency limits if it is not from a Reserve. It is rarely set.
	uncounted []string
}

// holdName names the hold of a Reserve on one shard by the place of its decision. The shard is a part of the name:
// places of two shards may be the same, and a slot takes its holds along.
func holdName(at Position, index uint32) string {
	return string(appendNumbers(make([]byte, 1, 16), uint64(at.Shard), at.Epoch, at.Seq, uint64(index)))
}

// operationHold names the hold of an operation on several shards.
func operationHold(id string) string { return "\x01" + id }

func (h *hold) compare(o *hold) int {
	return cmp.Or(cmp.Compare(h.expires, o.expires), strings.Compare(h.name, o.name))
}

// extra returns the counter's extras, allocated if necessary, for a change.
func (c *counter) extra() *counterExtras {
	if c.extras == nil {
		c.extras = &counterExtras{}
	}
	return c.extras
}

// openHolds returns the open holds. The caller must not change them.
func (x *counterExtras) openHolds() []hold {
	if x == nil {
		return nil
	}
	return x.holds
}

// findHold returns an open hold by name.
func (x *counterExtras) findHold(name string) (hold, bool) {
	if i := x.placeOfHold(name); i >= 0 {
		return x.holds[i], true
	}
	return hold{}, false
}

// placeOfHold returns the index of an open hold, or -1.
func (x *counterExtras) placeOfHold(name string) int {
	for i := range x.openHolds() {
		if x.holds[i].name == name {
			return i
		}
	}
	return -1
}

// addHold puts a hold into the counter. Its name must be new. addHold does not count the hold's units.
func (c *counter) addHold(h hold) {
	x := c.extra()
	i, _ := slices.BinarySearchFunc(x.holds, h, func(a, b hold) int { return a.compare(&b) })
	x.holds = slices.Insert(x.holds, i, h)
	x.leasedSum += h.leasedUnits()
	for j := range x.sums {
		if c.limits[j].counts(&h) {
			x.sums[j].units += h.cost
			x.sums[j].oldest = min(x.sums[j].oldest, h.taken)
		}
	}
}

// removeHold removes a hold from the counter and gives nothing back: its units are spent.
func (c *counter) removeHold(name string) (hold, bool) {
	i := c.extras.placeOfHold(name)
	if i < 0 {
		return hold{}, false
	}
	x := c.extras
	h := x.holds[i]
	x.holds = slices.Delete(x.holds, i, i+1) //mutant:hold-ends-twice
	x.leasedSum -= h.leasedUnits()
	for j := range x.sums {
		if c.limits[j].counts(&h) {
			x.sums[j].units -= h.cost
		}
	}
	return h, true
}

// extendHold changes the expiry of an open hold.
func (c *counter) extendHold(name string, expires limit.Time) bool {
	h, found := c.removeHold(name)
	if found {
		h.expires = expires
		c.addHold(h)
	}
	return found
}

// endHold removes a hold from the counter at an instant. With back all its units are given back, else they stay spent.
// Concurrency limits get their units back in either case. It does not change the ladder.
func (c *counter) endHold(name string, back bool, at limit.Time) bool {
	h, found := c.removeHold(name)
	if found {
		c.limits.release(&h, back, at)
		if back {
			c.meters.giveBack(c, h.cost, h.taken, at) //mutant:operation-credits-nothing
		}
	}
	return found
}

// release gives back the units of a hold that is no longer in the counter.
func (s countedLimits) release(h *hold, back bool, at limit.Time) {
	for i := range s {
		l := &s[i]
		//mutant:commit-keeps-concurrency //mutant:commit-keeps-lease-in-clusters
		if (back || l.limit.Algorithm == limit.Concurrency) && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, h.cost, h.taken, at)
		}
	}
}

// refund gives units of a hold back to all limits except concurrency limits. For a decision the hold is hold{taken:
// decidedAt}, which was never in the counter.
func (s countedLimits) refund(h *hold, units uint64, at limit.Time) {
	if units == 0 {
		return
	}
	for i := range s {
		l := &s[i]
		if l.limit.Algorithm != limit.Concurrency && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, units, h.taken, at)
		}
	}
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

// leasedUnits returns the units of a hold that is a lease.
func (h *hold) leasedUnits() uint64 {
	if h.lease {
		return h.cost
	}
	return 0
}

// counts reports whether the limit counted the hold, and has not been put to rest or restarted since. A lease is
// counted when it ends.
func (l *counted) counts(h *hold) bool {
	if h.lease {
		return false
	}
	//mutant:refund-crosses-a-reset
	return (h.taken > l.since || h.fresh && h.taken == l.since) && !slices.Contains(h.uncounted, l.name)
}
