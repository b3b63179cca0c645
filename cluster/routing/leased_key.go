package routing

import (
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	// leaseIdle is after how long without a check a lease is returned.
	leaseIdle = limit.Span(200e3)
	// leaseUnitsLeast is how many units a lease is worth its trip for.
	leaseUnitsLeast = 4
	// leaseRateOver is the least time over which the rate of a key is measured.
	leaseRateOver = limit.Span(20e3)
)

// leasedKey is a key of which this node may hold a lease. The lock of its stripe guards it.
type leasedKey struct {
	name  leaseName
	lease *lease        // nil: the owner is asked
	kept  bool          // a goroutine keeps it (leases.keep)
	woken chan struct{} // has room for one
	// changes counts the requests that have changed the key by hand. A lease that was asked for before one is not held.
	changes   uint64
	forgotten bool // the key leaves the table once it is not kept

	asked  limit.Span // the newest check
	since  limit.Span // demand counts from here
	demand uint64     // units
	calm   limit.Span // no lease is asked for until then
}

// lease is a lease that this node spends.
type lease struct {
	number       uint64
	units, spent uint64
	over         bool // it must not be spent any more
	asked        leaseTime
	stops        leaseTime
	seen         limit.Time // the latest wall clock
	revision     uint64     // of the policies under which it was asked for
	decision     shard.Decision
}

// add adds a key. If there is no room, the key without a lease that was not asked for the longest leaves, or else a
// lease is returned, and the new key must come again: add then returns nil.
func (s *leaseStripe) add(name leaseName, now limit.Span) *leasedKey {
	if len(s.keys) >= leaseKeysStripe { //mutant:leases-of-any-number
		var idle, oldest *leasedKey
		for _, k := range s.keys {
			if !k.kept && (idle == nil || k.asked < idle.asked) {
				idle = k
			}
			if oldest == nil || k.asked < oldest.asked {
				oldest = k
			}
		}
		if idle == nil {
			oldest.stop()
			oldest.forgotten = true
			return nil
		}
		delete(s.keys, idle.name)
	}
	for _, text := range []*string{&name.namespace, &name.policy, &name.key, &name.tier} {
		*text = strings.Clone(*text) // its memory is the request's
	}
	k := &leasedKey{name: name, woken: make(chan struct{}, 1), since: now, asked: now}
	s.keys[name] = k
	return k
}

// note counts a check of the key.
func (k *leasedKey) note(cost uint64, now limit.Span) {
	if now-k.asked > leaseIdle {
		k.since, k.demand = now, 0
	}
	k.asked, k.demand = now, k.demand+cost
	k.forgotten = false
}

// wants returns how many units a lease should have: as many as would be spent in its time at the present rate.
func (k *leasedKey) wants(p *policy.Policy, now limit.Span) uint64 {
	//mutant:lease-for-one-check
	if now < k.calm || now-k.asked > leaseIdle || k.asked == k.since || k.forgotten {
		return 0
	}
	demand := float64(k.demand) * float64(p.Lease.For) / float64(max(now-k.since, leaseRateOver))
	if demand < leaseUnitsLeast {
		return 0
	}
	return uint64(min(demand, float64(p.Lease.Units)))
}

// spend answers a check from the lease, and reports whether it did.
func (k *leasedKey) spend(cost, revision uint64, at leaseTime, into *shard.Decision) bool {
	l := k.lease
	if l == nil || l.over {
		return false
	}
	if l.revision != revision || l.ended(at) { //mutant:lease-of-former-policies
		k.stop()
		return false
	}
	if l.seen = at.wall; l.units-l.spent < cost { //mutant:lease-spent-twice
		k.rouse()
		return false
	}
	l.spent += cost
	if l.ebbs(at.boot) {
		k.rouse()
	}
	*into = l.decision
	into.Age = max(1, at.boot-l.asked.boot)
	into.Limits = append([]shard.LimitStatus(nil), l.decision.Limits...)
	return true
}

// ended reports whether the lease must not be spent at an instant.
func (l *lease) ended(at leaseTime) bool {
	return at.boot >= l.stops.boot || //mutant:lease-outlives-a-sleep
		at.wall >= l.stops.wall || //mutant:lease-outlives-its-wall-clock
		at.wall < l.seen //mutant:lease-survives-a-clock-set-back
}

// returned returns the parameters that return the lease.
func (l *lease) returned(holder string) shard.LeaseTerms {
	return shard.LeaseTerms{Holder: holder, Returned: l.number, Spent: l.spent}
}

// ebbs reports whether it is time for another lease.
func (l *lease) ebbs(now limit.Span) bool {
	return l.units-l.spent <= l.units/4 || now-l.asked.boot >= (l.stops.boot-l.asked.boot)*3/5
}

// stop ends the lease, if there is one, and has it returned.
func (k *leasedKey) stop() {
	if k.lease != nil {
		k.lease.over = true
	}
	k.rouse()
}

// rouse wakes the keeper of the key.
func (k *leasedKey) rouse() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}
