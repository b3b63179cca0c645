package shard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// What a counter has besides the states of its limits. Most counters have none of it.
//
// How a request is decided and counted, for whoever adds an operation:
//
//	d := e.newDecision()
//	err := e.decideEntries(r, Check, &d) // asks every limit; e.charges has each entry's counter, limits and policy
//	e.deny(r, Check, &d)                 // denied: the statuses show what is, the waits are exact
//	err = e.roomForHolds()               // allowed: before holds are put into the counters
//	e.count(&d)                          // the states become those of the keys; d.Index is set
//	e.putHolds(r, &d, hold{...})         // a hold of each entry's cost in its counter
//	e.showExtras(&d)                     // at the end: Held, LockoutLevel, BlockedUntil and Blocked
//
// How a counter is changed otherwise: decideEntries with Get, or another op that decides nothing, brings it into
// e.charges, and holds that have expired ended already; then c.endHold and the like; then e.touch(c), so that it is
// written; then e.statuses(&d), which makes d.Limits show what is, as Get does. Entries with Limits != nil are inline. A
// Settle that is inline, or whose policy or tier is gone, has the limits that the counter's record names.

// maxHolds bounds the open holds on one counter, and so its record, of which each has about 32 bytes: they are half an
// entry then. Every batch that touches the key reads and writes all of them.
const maxHolds = 4096

// extras is what a counter has besides its limits.
type extras struct {
	holds    []hold    // in order of (expires, name)
	sums     []heldSum // of the holds, one for each limit; nil: not added up
	ladder   ladder
	block    limit.Time       // somebody has blocked the key by hand until then; 0: nobody
	override *policy.Override // never changed, only replaced; of an expired one the evaluation knows nothing
}

// hold is units that were taken by a Reserve, or by the part of an operation on several shards, and may come back.
type hold struct {
	name     string     // holdName or operationHold; once in a counter
	expires  limit.Time // ends at this instant, unless it is remote
	taken    limit.Time // shard time of the decision
	cost     uint64
	onExpire policy.OnExpire // never OnExpireDefault
	remote   bool            // does not expire: another shard decides what becomes of it
	// fresh: it was taken after the since of the same instant. A batch has one instant, and what is taken behind a reset
	// in the same batch must come back all the same.
	fresh bool
	// uncounted names the limits that did not count it, so that it gives nothing back to them: those in shadow that
	// would have denied it, and concurrency limits if it is not of a Reserve. Hardly ever any.
	uncounted []string
}

// holdName names the hold of a Reserve on one shard by the place of its decision.
func holdName(at Position, index uint32) string {
	return string(appendPlace(make([]byte, 1, 12), at.Epoch, at.Seq, index))
}

// operationHold names the hold of an operation on several shards.
func operationHold(id string) string { return "\x01" + id }

func (h *hold) compare(o *hold) int {
	return cmp.Or(cmp.Compare(h.expires, o.expires), strings.Compare(h.name, o.name))
}

// extra returns the counter's extras to be changed.
func (c *counter) extra() *extras {
	if c.extras == nil {
		c.extras = &extras{}
	}
	return c.extras
}

// holds are the open ones. The caller must not change them.
func (c *counter) holds() []hold {
	if c.extras == nil {
		return nil
	}
	return c.extras.holds
}

// findHold finds an open hold by name.
func (c *counter) findHold(name string) (hold, bool) {
	if i := c.placeOfHold(name); i >= 0 {
		return c.extras.holds[i], true
	}
	return hold{}, false
}

// placeOfHold is where an open hold stands; -1: it is not there.
func (c *counter) placeOfHold(name string) int {
	for i := range c.holds() {
		if c.extras.holds[i].name == name {
			return i
		}
	}
	return -1
}

// addHold puts a hold into the counter. There must be none of its name. What it took is not counted by this.
func (c *counter) addHold(h hold) {
	x := c.extra()
	i, _ := slices.BinarySearchFunc(x.holds, h, func(a, b hold) int { return a.compare(&b) })
	x.holds = slices.Insert(x.holds, i, h)
	for j := range x.sums {
		if c.limits[j].counts(&h) {
			x.sums[j].units += h.cost
			x.sums[j].oldest = min(x.sums[j].oldest, h.taken)
		}
	}
}

// removeHold takes a hold out of the counter and gives nothing back: its units are spent.
func (c *counter) removeHold(name string) (hold, bool) {
	i := c.placeOfHold(name)
	if i < 0 {
		return hold{}, false
	}
	x := c.extras
	h := x.holds[i]
	x.holds = slices.Delete(x.holds, i, i+1)
	for j := range x.sums {
		if c.limits[j].counts(&h) {
			x.sums[j].units -= h.cost
		}
	}
	return h, true
}

// extendHold makes an open hold live until expires.
func (c *counter) extendHold(name string, expires limit.Time) bool {
	h, found := c.removeHold(name)
	if found {
		h.expires = expires
		c.addHold(h)
	}
	return found
}

// endHold takes a hold out of the counter at an instant. With back all its units are given back, else they stay spent.
// Concurrency limits get theirs back whatever becomes of the rest. It does nothing to the ladder.
func (c *counter) endHold(name string, back bool, at limit.Time) bool {
	h, found := c.removeHold(name)
	if found {
		c.release(&h, back, at)
	}
	return found
}

// release gives back what a hold took that is in the counter no more.
func (c *counter) release(h *hold, back bool, at limit.Time) {
	for i := range c.limits {
		l := &c.limits[i]
		if (back || l.limit.Algorithm == limit.Concurrency) && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, h.cost, h.taken, at)
		}
	}
}

// refund gives units back that were taken with a hold, or with a decision (a hold{taken: decidedAt} that was never in
// the counter), to all limits but the concurrency limits.
func (c *counter) refund(h *hold, units uint64, at limit.Time) {
	if units == 0 {
		return
	}
	for i := range c.limits {
		l := &c.limits[i]
		if l.limit.Algorithm != limit.Concurrency && l.counts(h) {
			l.state = limit.Refund(l.limit, l.state, units, h.taken, at)
		}
	}
}

// restart makes a limit begin anew at an instant: what was taken at it or before is not given back. Of the holds of that
// very instant only those that come after this are fresh.
func (c *counter) restart(l *counted, at limit.Time) {
	l.since = at
	c.forgetSums()
	for i := range c.holds() {
		if h := &c.extras.holds[i]; l.counts(h) {
			h.uncounted = append(slices.Clip(h.uncounted), l.name)
		}
	}
}

// counts reports whether the limit counted the hold, and was not put back to rest or begun anew since.
func (l *counted) counts(h *hold) bool {
	return (h.taken > l.since || h.fresh && h.taken == l.since) && !slices.Contains(h.uncounted, l.name)
}
