package shard

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// maxHolds bounds the open holds on one counter and thereby its record. Each hold has about 32 bytes, so together they
// are half an entry. Every batch that touches the key reads and writes all of them.
const maxHolds = 4096

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
	// would have denied it, and concurrency limits if it is not from a Reserve. It is rarely set. Copies of a hold
	// share it, so it is never changed in place.
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

// leasedUnits returns the units of a hold that is a lease.
func (h *hold) leasedUnits() uint64 {
	if h.lease {
		return h.cost
	}
	return 0
}

// The flags of a hold in its record: its OnExpire in the two lowest bits, then these. Append
// before holdUnknown, never renumber.
const (
	holdRemote = 4 << iota
	holdFresh
	holdUncounted // the names follow
	holdSpans
	holdLease
	holdUnknown // and no other
)

// code is a hold: name, expires, taken, cost, flags, and the number and names of the limits that did not count it.
// A counter may have thousands.
func (h *hold) code(c *codec.Codec) {
	c.Text(&h.name)
	codeTime(c, &h.expires)
	codeTime(c, &h.taken)
	c.Uint64(&h.cost)
	flags := byte(h.onExpire) | bit(h.remote)*holdRemote | bit(h.fresh)*holdFresh |
		bit(len(h.uncounted) > 0)*holdUncounted |
		bit(h.spans)*holdSpans | bit(h.lease)*holdLease
	if codec.Byte(c, &flags); flags&holdUncounted != 0 {
		codec.List(c, &h.uncounted, math.MaxInt, func(name *string) { c.Text(name) })
	}
	if !c.Reading() {
		return
	}
	h.onExpire = policy.OnExpire(flags & 3)
	h.remote, h.fresh, h.spans, h.lease = flags&holdRemote != 0, flags&holdFresh != 0, flags&holdSpans != 0,
		flags&holdLease != 0
	if flags >= holdUnknown || h.onExpire == policy.OnExpireDefault || h.onExpire > policy.OnExpireCommit ||
		h.name == "" ||
		h.cost == 0 || h.cost > limit.MaxCost || h.taken > h.expires && !h.remote ||
		flags&holdUncounted != 0 && len(h.uncounted) == 0 || h.lease &&
		(h.remote || h.onExpire != policy.OnExpireCommit) {
		c.Fail()
	}
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

// counts reports whether the limit counted the hold, and has not been put to rest or restarted since. A lease is
// counted when it ends.
func (l *counted) counts(h *hold) bool {
	if h.lease {
		return false
	}
	//mutant:refund-crosses-a-reset
	return (h.taken > l.since || h.fresh && h.taken == l.since) && !slices.Contains(h.uncounted, l.name)
}

// HoldTerms is the lifetime of a hold, and its fate if it is not settled.
type HoldTerms struct {
	TTL      limit.Span      // from the decision: 1 us to MaxHoldTTL
	OnExpire policy.OnExpire // OnExpireDefault: that of each entry's policy
}

// MaxHoldTTL is the longest TTL of a hold: 31 days. ActionExtend can prolong it.
const MaxHoldTTL = limit.Span(31 * 24 * 3600 * 1_000_000)

// holdTermsProblem refuses a Reserve without a valid lifetime of its hold.
func holdTermsProblem(r *Request) *Error {
	switch h := r.Hold; {
	case h == nil:
		return Invalidf("ttl", "is missing: a hold that is not settled must end")
	case h.TTL < 1 || h.TTL > MaxHoldTTL:
		return Invalidf("ttl", "is %d us: a hold lives for 1 us to 31 days at once; extend it to keep it longer", h.TTL)
	case h.OnExpire > policy.OnExpireCommit:
		return Invalidf("on_expire", "%d is not known to this version: run a newer one", h.OnExpire)
	}
	return nil
}

// reserve takes the units that the limits have admitted, and opens holds of them: one in the counter of each entry, all
// with one name.
func (e *evaluation) reserve(r *Request, d *Decision) *Error {
	if err := e.aboutToMove(r); err != nil { //mutant:hold-spans-a-moving-slot
		return err
	}
	if err := e.charges.roomForHolds(); err != nil {
		return err
	}
	if e.room.full() {
		return e.full()
	}
	e.count(d)
	d.HoldExpires = e.at.Now + limit.Time(r.Hold.TTL)
	e.putHolds(r, d, hold{name: holdName(d.Position, d.Index), expires: d.HoldExpires, onExpire: r.Hold.OnExpire,
		spans: r.spans()})
	return nil
}

// roomForHolds refuses a hold if a counter already has the most that it may have.
func (cs charges) roomForHolds() *Error {
	for i := range cs {
		if len(cs[i].counter.extras.openHolds()) >= maxHolds {
			return errorf(Overloaded, "", "entries[%d]: the key has %d open holds, which is the most: "+
				"settle some, or reserve for a shorter time", i, maxHolds)
		}
	}
	return nil
}

// putHolds puts a hold of each entry's cost into its counter, after count. A hold gives nothing back to a limit in
// shadow that denied it, nor to a limit that has not counted all of it.
func (e *evaluation) putHolds(r *Request, d *Decision, h hold) {
	e.extras = true
	h.taken = e.at.Now
	for i := range e.charges {
		ch, own := &e.charges[i], h
		if ch.looks { //mutant:leg-holds-for-a-look
			continue
		}
		own.cost = r.Entries[i].Cost
		if own.onExpire == policy.OnExpireDefault {
			own.onExpire = ch.policy.OnExpire
		}
		for j := range ch.limits {
			l := &ch.limits[j]
			if s := &d.Limits[ch.first+j]; !s.Allowed || s.Uncounted { //mutant:shadow-denial-refunded
				own.uncounted = append(own.uncounted, l.Name)
			}
			if k := ch.counter.limits.find(j, l.Name); k >= 0 && ch.counter.limits[k].since == h.taken {
				own.fresh = true
			}
		}
		for j := range ch.counter.limits { // limits no longer in the policy counted nothing either
			name := ch.counter.limits[j].name
			if !slices.ContainsFunc(ch.limits, func(l policy.Limit) bool { return l.Name == name }) {
				own.uncounted = append(own.uncounted, name)
			}
		}
		ch.counter.addHold(own)
		e.touch(ch.counter)
		e.bytes += len(own.name) + 32
	}
}
