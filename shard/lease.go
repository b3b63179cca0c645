package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// A lease is a hold of one holder under one key that the holder spends in memory. If it is not returned, it has been
// spent (X17). The state of no limit contains it while it is open: each limit answers as if its quota were less by
// what is leased (limit.Limit.Without). What was spent is added to the states at the instant at which the lease ends.
// So
//
//   - what a lease holds counts as used in whatever state its key has, also after a reset, under an override or under a
//     new revision, and its spending is in the state that stands at its end;
//   - a unit that was spent at some instant is part of every window, log and bucket from before that instant on, and
//     counts for at least as long as it would if it had been counted then.

// LeaseTerms are the parameters of a Lease: what a holder asks for, and what it returns. Both are done in this order,
// so one request renews a lease.
type LeaseTerms struct {
	// Holder names one life of a holder: a process that starts again has another name.
	Holder string
	Number uint64 // of the lease that is asked for, among all of the holder's; 0: none
	Units  uint64 // asked for
	// Returned is the number of a lease that the holder will not spend any more; 0: none. The holder may return one of
	// which it does not know whether it was granted.
	Returned uint64
	Spent    uint64 // of the returned one; more than it had counts as all of it
}

// Leased is the answer to a Lease. It has no Units if nothing was granted: the holder then asks for each request. Of a
// Get or a change by hand it is the sum of the open leases, until the last one ends: what the change takes from the key
// may still be admitted until then, and no longer.
type Leased struct {
	Units uint64
	Ends  limit.Time // the holder stops LeaseMargin earlier
}

// Granted returns how many units the answer to a Lease grants, 0 if none, and for how long its holder may spend them,
// counted from before it asked (X17).
func (d *Decision) Granted() (units uint64, within limit.Span) {
	l := d.Answer().Lease
	if l == nil || l.Units == 0 {
		return 0, 0
	}
	length := limit.Span(l.Ends - d.DecidedAt)
	return l.Units, length - LeaseMargin(length) //mutant:holder-spends-to-the-end
}

// LeasedAnswer returns what a lease answers by the decision that granted it: the state of the limits as of then.
func (d *Decision) LeasedAnswer() Decision {
	said := Decision{Allowed: true, DecidedAt: d.DecidedAt, Position: d.Position, Limits: slices.Clone(d.Limits)}
	for i := range said.Limits {
		said.Limits[i].Allowed, said.Limits[i].RetryAfter = true, 0
	}
	return said
}

// LeaseHolderMax bounds the name of a holder, in bytes.
const LeaseHolderMax = 64

// LeaseMargin returns how long before the end of a lease of this length in shard time its holder stops, rounded up: 500
// ms, as shard time may be 400 ms ahead after a failover (G4), and 0.2 %, as clocks drift by 500 ppm on each side. The
// holder counts from before it asked (X17).
func LeaseMargin(length limit.Span) limit.Span {
	return 500e3 + (length+499)/500 //mutant:lease-spent-to-its-end
}

// leaseSpentLate is how long after a restore leases that were lost with the history may be spent. Their policy may have
// had another For.
const leaseSpentLate = policy.LeaseForMax + 500e3

func (t *LeaseTerms) code(c *MessageCodec) {
	c.Text(&t.Holder)
	c.Uint64(&t.Number, &t.Units, &t.Returned, &t.Spent)
}

func (l *Leased) code(c *MessageCodec) {
	c.Uint64(&l.Units)
	codec.Int(&c.Codec, &l.Ends)
}

// leaseName returns the name of the hold of a lease.
func leaseName(holder string, number uint64) string {
	return string(append(binary.AppendUvarint([]byte{2}, number), holder...))
}

// leaseProblem refuses a Lease that is invalid for any key.
func leaseProblem(r *Request) *Error {
	t := r.systemTerms().Lease
	switch {
	case t == nil:
		return Invalidf("system", "is no lease that this version knows: run a newer one")
	case len(r.Entries) != 1 || r.Entries[0].Limits != nil:
		return Invalidf("entries", "must be one key of a policy")
	case r.ID != "":
		return Invalidf("idempotency_id", "is %q: a lease has a number", r.ID)
	case t.Holder == "" || len(t.Holder) > LeaseHolderMax:
		return Invalidf("holder", "is missing, or has more than %d bytes", LeaseHolderMax)
	case t.Number == t.Returned:
		return Invalidf("number", "is %d, as of the lease that is returned", t.Number)
	case t.Number != 0 && (t.Units < 1 || t.Units > limit.MaxCost):
		return Invalidf("units", "are %d: 1 to %d can be asked for", t.Units, uint64(limit.MaxCost))
	}
	return nil
}

// returnsLease reports whether the request returns a lease and asks for none. It is a settlement: what was not spent
// comes back, whatever the policies say of the key by then.
func (r *Request) returnsLease() bool { return r.Op == Lease && r.System.Lease.Number == 0 }

// lease answers a Lease. d has the limits of the entry.
func (e *evaluation) lease(r *Request, d Decision) Result {
	t, ch := r.System.Lease, &e.charges[0]
	e.endLease(ch.counter, leaseName(t.Holder, t.Returned), t.Spent)
	leased := Leased{}
	if t.Number != 0 {
		if ch.policy.Lease == nil {
			return Result{Err: Invalidf("entries[0].policy", "%q has no lease", r.Entries[0].Policy)}
		}
		leased = e.grant(ch, t)
	}
	e.statuses(&d)
	d.System = &SystemAnswer{Lease: &leased}
	return Result{Decision: d}
}

// endLease ends a lease that is returned: it has spent so many units until now. One that has ended, or never was, is no
// error: all of it is spent, or none of it was taken. Others of the key are written with the present numbers of its
// limits.
func (e *evaluation) endLease(c *counter, name string, spent uint64) {
	if c.extras.leased() == 0 {
		return
	}
	if h, found := c.removeHold(name); found {
		c.spendLease(min(spent, h.cost), e.at.Now) //mutant:returned-lease-spent-nothing
	}
	e.touch(c)
}

// grant opens a lease, if there is enough left. A second copy of a request is granted nothing: its holder returns what
// it does not know to have.
func (e *evaluation) grant(ch *charge, t *LeaseTerms) Leased {
	c, name, now := ch.counter, leaseName(t.Holder, t.Number), e.at.Now
	_, copied := c.extras.findHold(name)
	units, ends := ch.leasable(t.Units, now), ch.leaseEnds(now)
	length := limit.Span(ends - now)
	switch {
	case copied, units == 0, length <= LeaseMargin(length), //mutant:lease-shorter-than-its-margin
		c.extras.blockedUntil(now) != 0, //mutant:blocked-key-is-leased
		e.room.full(), len(c.extras.openHolds()) >= maxHolds:
		return Leased{}
	}
	for j := range ch.limits {
		ch.crossLeased(j, units, now)
	}
	e.openLease(c, ch.limits, hold{
		name:     name,
		expires:  ends,
		taken:    now,
		cost:     units,
		onExpire: policy.OnExpireCommit,
		lease:    true,
	})
	return Leased{Units: units, Ends: ends}
}

// leasable returns how many of the asked units a lease gets: no more than the policy's share of what each limit has
// left besides what leases hold of it. A tier that lifts the limits leases nothing.
func (ch *charge) leasable(asked uint64, now limit.Time) uint64 {
	left, terms := uint64(limit.MaxCost), ch.policy.Lease
	for j := range ch.limits {
		l := &ch.limits[j]
		switch {
		case l.Unlimited:
			return 0
		case l.Algorithm != limit.Unlimited:
			left = min(left, limit.Status(l.Limit, ch.counter.at(j, l, now), now).Remaining)
		}
	}
	left = left * uint64(terms.Share) / 100
	return min(asked, terms.Units, left-min(left, ch.counter.extras.leased())) //mutant:leases-take-all-that-is-left
}

// leaseEnds returns when a lease that begins now ends: before each window in which it would be taken.
func (ch *charge) leaseEnds(now limit.Time) limit.Time {
	ends := now + limit.Time(ch.policy.Lease.For)
	for j := range ch.limits {
		l := &ch.limits[j]
		ends = min(ends, limit.WindowEnd(l.Limit, ch.counter.at(j, l, now), now)-1) //mutant:lease-outlives-its-window
	}
	return ends
}

// openLease puts a lease into the counter. As long as one is open the record has each limit, with the numbers under
// which it is to count what is spent.
func (e *evaluation) openLease(c *counter, limits []policy.Limit, h hold) {
	for i := range limits {
		c.set(i, &limits[i], c.at(i, &limits[i], e.at.Now), e.at.Now)
	}
	c.addHold(h)
	e.touch(c)
	e.bytes += len(h.name) + 32
}

// leasedKeys are the keys with leases, for a revision of their policies.
type leasedKeys struct{ *batch }

// adopt brings up the leased keys of the policies that a revision changes. If one of these may have leases, it reads
// every record for that: replicas do not look into the records that they install, so nothing says which have one. What
// happens at an instant happens then: each limit of the revision counts what these leases spend, although possibly no
// request asks for the key while its record lives by the former limits. A key keeps the tier under which it was last
// written. known is as of the revision before.
func (b leasedKeys) adopt(before *policy.Set, known, changes []numberChange) {
	changed, ceased := make(map[string]bool), slices.ContainsFunc(changes, numberChange.isOfLeases)
	for i := range changes {
		c := &changes[i]
		old, _ := before.Lookup(c.policy)
		if c.at == b.at.Now && !c.isOfLeases() && (ceased || old != nil && old.Lease != nil) {
			changed[c.policy] = true
		}
	}
	if len(changed) == 0 { //mutant:every-revision-reads-all
		return
	}
	if _, err := b.restored(); err != nil {
		return // it refuses all requests, too
	}
	for key, r := range b.view.All() {
		c := b.counterOf(key, r, changed)
		if c == nil {
			continue
		}
		_, name, _, _ := readKeyOf(c.key)
		tier := ""
		if old, found := before.Lookup(name); found {
			b.revisions = revisions{known: known, read: true}
			tier = old.TierOf(c.has, c.override()) //mutant:leased-key-changes-its-tier
			b.bringUp(c, old, tier)
		}
		b.revisions = revisions{known: changes, read: true}
		p, _ := b.policies.Lookup(name)
		b.bringUp(c, p, tier) //mutant:revision-misses-a-lease
	}
}

// counterOf returns the counter of a record if it has leases, and is of one of the policies, or of any if these are
// nil.
func (b leasedKeys) counterOf(key []byte, r Record, policies map[string]bool) *counter {
	if !isCounter(key, r, counterExtra, b.at.Now) {
		return nil
	}
	_, name, _, ok := readKeyOf(key)
	if !ok || policies != nil && !policies[string(name)] {
		return nil
	}
	c := &counter{key: string(key), known: true, size: len(key) + len(r.Value), mark: b.mark, policy: inlinePolicy}
	limits := policyAtKey(b.policies, c.key).Limits // their time zones need not be loaded
	if c.decode(r.Value, limits) != nil || c.extras.leased() == 0 {
		return nil
	}
	return c
}

// bringUp brings a counter up under a policy, as a request with a tier would. If it still has leases, each limit of
// the policy is to count them.
func (b leasedKeys) bringUp(c *counter, p *policy.Policy, tier string) {
	c.policy = p
	b.batch.bringUp(c, p.OfTier(tier, c.override()), tier, false)
	if c.extras.leased() == 0 {
		return
	}
	limits := p.OfTier(tier, c.override())
	for i := range limits {
		if l := &limits[i]; !c.has(l.Name, &l.Limit) {
			c.set(i, l, c.at(i, l, b.at.Now), b.at.Now) //mutant:new-limit-misses-a-lease
		}
	}
	b.touch(c)
}

// spendLease counts what a lease that has ended has spent.
func (c *counter) spendLease(units uint64, at limit.Time) {
	if units == 0 {
		return
	}
	for i := range c.limits {
		l := &c.limits[i]
		if l.limit.Algorithm == limit.Concurrency {
			continue
		}
		if l.atRest(at) {
			c.restart(l, max(l.since, before(at)))
		}
		l.state, _ = limit.Add(l.limit, l.state, units, at)
	}
}

// openLeases returns the open leases, in the order of their ends.
func (x *counterExtras) openLeases() (leases []hold) {
	for _, h := range x.openHolds() {
		if h.lease {
			leases = append(leases, h)
		}
	}
	return leases
}

// leased returns how many units open leases hold.
func (x *counterExtras) leased() uint64 {
	if x == nil {
		return 0
	}
	return x.leasedSum
}

// showLeases shows the open leases of the keys.
func (cs charges) showLeases(d *Decision) {
	var open Leased
	for i := range cs {
		for _, h := range cs[i].counter.extras.openLeases() {
			open.Units, open.Ends = open.Units+h.cost, max(open.Ends, h.expires) //mutant:change-holds-at-once
		}
	}
	if open.Units > 0 {
		d.system().Lease = &open
	}
}

// HeldLease is an open lease of a key.
type HeldLease struct {
	Holder string
	Units  uint64
	Ends   limit.Time
}

// heldLeases lists the leases that have not ended.
func (x *counterExtras) heldLeases(now limit.Time) (held []HeldLease) {
	for _, h := range x.openLeases() {
		if number, n := binary.Uvarint([]byte(h.name)[min(1, len(h.name)):]); h.expires > now && number > 0 && n > 0 {
			held = append(held, HeldLease{h.name[1+n:], h.cost, h.expires})
		}
	}
	return held
}
