package holder

import "time"

const (
	// idle is after how long without a check a lease is returned.
	idle = 200 * time.Millisecond
	// unitsLeast is the demand in the life of a lease, in units, from which it is worth its round trip.
	unitsLeast = 4
	// readLate is how much later than a newer reading of the clocks, by another caller, an older one may be used. It is
	// far less than the margin that a holder keeps before the end of a lease beside those for clocks and failovers.
	readLate = 50 * time.Millisecond
	// rateOver is the least time over which the rate of a key is measured.
	rateOver = 20 * time.Millisecond
)

// key is a key that may have a lease. The lock of its stripe guards it, but for name and woken, which never change.
type key[A any] struct {
	name  Name
	lease *lease[A]     // nil: the owner is asked
	kept  bool          // a goroutine keeps it (Holder.keep); until it ends, the key stays in the table
	woken chan struct{} // wakes that goroutine; of capacity 1
	// changes counts the requests that have changed the key by hand. A lease that was asked for before one is not held.
	changes   uint64
	forgotten bool // the key leaves the table once it is not kept

	// Instants of Time.Boot.
	asked  time.Duration // the newest check; equal to since after the first one, which asks for no lease
	since  time.Duration // demand counts from here
	demand uint64        // units of the checks, whether admitted or not
	calm   time.Duration // no lease is asked for until then
}

// note counts a check of the key.
func (k *key[A]) note(cost uint64, now time.Duration) {
	if now-k.asked > idle {
		k.since, k.demand = now, 0
	}
	k.asked, k.demand = now, k.demand+cost
	k.forgotten = false
}

// wants returns how many units a lease should have: as many as would be spent in its time at the present rate.
func (k *key[A]) wants(t Terms, now time.Duration) uint64 {
	//mutant:lease-for-one-check
	if now < k.calm || now-k.asked > idle || k.asked == k.since || k.forgotten {
		return 0
	}
	demand := float64(k.demand) * float64(t.For) / float64(max(now-k.since, rateOver))
	if demand < unitsLeast {
		return 0
	}
	return uint64(min(demand, float64(t.Units)))
}

// spend spends units of the lease, and reports whether it did. It wakes the keeper when the lease is to be returned or
// renewed.
func (k *key[A]) spend(cost, revision uint64, at Time) bool {
	l := k.lease
	if l == nil || l.over {
		return false
	}
	if l.revision != revision || l.ended(at) { //mutant:lease-of-former-policies
		k.stop()
		return false
	}
	if l.seen = max(l.seen, at.Wall); l.units-l.spent < cost { //mutant:lease-spent-twice
		k.rouse()
		return false
	}
	l.spent += cost
	if l.ebbs(at.Boot) {
		k.rouse()
	}
	return true
}

// stop ends the lease, if there is one, and has it returned.
func (k *key[A]) stop() {
	if k.lease != nil {
		k.lease.over = true
	}
	k.rouse()
}

// rouse wakes the keeper of the key.
func (k *key[A]) rouse() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}
