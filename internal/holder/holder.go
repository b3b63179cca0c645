package holder

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stripes    = 64
	keysStripe = 64 // so the table has at most 4,096 keys
	// within bounds how long a lease is asked for.
	within = 2 * time.Second
)

// Config connects a Holder to its caller. All functions may be called by any number of goroutines.
type Config[A any] struct {
	// Process begins the holder's name, for people; it may be empty, and has at most 32 bytes.
	Process string
	// Owner asks the owners of the keys, and returns one answer for each request. It repeats what returns a lease until
	// ctx ends, as a return may arrive twice.
	Owner func(ctx context.Context, asks []Ask) []Grant[A]
	// Terms returns the terms of a policy's leases, and whether it allows any. It is called under a lock and must be
	// quick.
	Terms func(policy string) (Terms, bool)
	// Clock reads the clocks, as MachineClock does. It is never called under a lock.
	Clock func() Time
}

// name returns a name that is never used again.
func (c *Config[A]) name() string {
	if c.Process == "" {
		return rand.Text()
	}
	return c.Process + "/" + rand.Text()
}

// Holder is the leases of one process. A lease answers a check of its key and tier while all of these hold:
//
//   - It has as many units left as the check costs.
//   - It has not ended. Its end counts from before it was asked for, on a clock that runs on while the machine sleeps,
//     and on the wall clock. A wall clock that is set back ends it (X17).
//   - The policies that the caller knows have not changed since it was asked for.
//   - No request that changes its key by hand has passed this process since (End).
//
// Everything else is decided by the owner. All methods may be called by any number of goroutines; checks of the same
// key wait for each other for less than a microsecond. A key that has a lease, or asks for one, has a goroutine, and
// Close waits for all of them.
type Holder[A any] struct {
	config  Config[A]
	name    string        // of this life of the process: never used again
	number  atomic.Uint64 // of the newest lease that was asked for; 0: none was
	seed    maphash.Seed  // decides which stripe has a key
	stripes [stripes]stripe[A]
	ctx     context.Context // ends some time after Close has begun
	cancel  context.CancelFunc
	keepers sync.WaitGroup // is added to under the lock of a stripe, and not once closing is set
	closing atomic.Bool
}

// New makes a Holder. The caller must call Close.
func New[A any](config Config[A]) *Holder[A] {
	h := &Holder[A]{config: config, name: config.name(), seed: maphash.MakeSeed()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for i := range h.stripes {
		h.stripes[i].keys = make(map[Name]*key[A])
	}
	return h
}

// Spend spends units of a lease, if there is one with so many, and returns its answer and how old that is, at least a
// nanosecond. If counts is set, a check that no lease answers counts towards the rate for which a lease is asked.
func (h *Holder[A]) Spend(name Name, cost uint64, terms Terms, counts bool) (answer A, age time.Duration, spent bool) {
	// a paused process stands still at its clock, and must hold no lock then
	s, at := h.stripe(name.Key), h.config.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[name]
	if k == nil && counts {
		k = s.add(name, at.Boot)
	}
	if k == nil {
		return answer, 0, false
	}
	if spent = k.spend(cost, terms.Revision, at); spent {
		answer, age = k.lease.answer, max(1, at.Boot-k.lease.asked.Boot)
	}
	if spent || counts {
		k.note(cost, at.Boot)
		h.start(k, terms, at.Boot)
	}
	return answer, age, spent
}

// End returns the leases of some keys, in all tiers, before a change of them by hand and after it. It waits for the
// owner, as the change would. A Name without a policy is a key that is forgotten under all policies.
func (h *Holder[A]) End(names []Name) {
	var owed []Ask
	for _, name := range names {
		owed = h.endKey(name, owed)
	}
	if len(owed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, within)
	defer cancel()
	for i, grant := range h.config.Owner(ctx, owed) {
		if grant.Failed {
			h.giveBackLater(owed[i])
		}
	}
}

// endKey ends the leases of a key, in all tiers. It appends the requests that return them. of.Tier and of.Hashed mean
// nothing.
func (h *Holder[A]) endKey(of Name, owed []Ask) []Ask {
	s, forget := h.stripe(of.Key), of.Policy == ""
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.keys {
		if name.Key != of.Key || name.Namespace != of.Namespace || !forget && name.Policy != of.Policy {
			continue
		}
		k.changes++ // one that is being asked for is not held
		if k.lease != nil {
			owed = append(owed, k.lease.returned(name, h.name))
			k.lease = nil
			k.rouse()
		}
		if k.forgotten = k.forgotten || forget; k.forgotten && !k.kept {
			delete(s.keys, name) //mutant:forgotten-key-among-leases
		}
	}
	return owed
}

// giveBackLater goes on to return a lease after the owner could not be reached, unless the Holder is being closed: then
// the lease expires by itself.
func (h *Holder[A]) giveBackLater(owed Ask) {
	s := h.stripe(owed.Name.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.closing.Load() {
		h.keepers.Go(func() { h.giveBack([]Ask{owed}, LifeMax) })
	}
}

// giveBack returns leases of at most this life, and gives up when the last of them has expired by itself.
func (h *Holder[A]) giveBack(owed []Ask, life time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, life+within)
	defer cancel()
	h.config.Owner(ctx, owed)
}

// Held returns how many leases are held.
func (h *Holder[A]) Held() (n int) {
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.Lock()
		for _, k := range s.keys {
			if k.lease != nil {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// Close returns all leases, within 2 s, and asks for none any more. It may be called more than once.
func (h *Holder[A]) Close() {
	h.closing.Store(true)
	for i := range h.stripes {
		s := &h.stripes[i]
		s.mu.Lock()
		for _, k := range s.keys {
			k.rouse()
		}
		s.mu.Unlock()
	}
	patience := time.AfterFunc(within, h.cancel)
	h.keepers.Wait()
	patience.Stop()
	h.cancel()
}
