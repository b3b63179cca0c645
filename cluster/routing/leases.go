package routing

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	leaseStripes    = 64
	leaseKeysStripe = 64 // so the table has at most 4,096 keys
	// leaseWithin bounds how long a lease is asked for. A copy that arrives later is granted nothing.
	leaseWithin = 2 * time.Second
)

// leases are the units that this node spends in memory, as the policies allow (policy.Policy.Lease, X17). The owner of
// a key has counted them before, so a check that they answer needs no trip, and nobody is admitted above the limit.
//
// A lease answers a plain check of one entry with its own key and tier while all of these hold:
//
//   - It has as many units left as the check costs.
//   - It has not ended. Its end counts from before it was asked for, less shard.LeaseMargin, on a clock that runs on
//     while the machine sleeps, and on the wall clock. A wall clock that is set back ends it (L4).
//   - The policies that this node knows have not changed since it was asked for.
//   - No request that changes its key by hand has passed this node since.
//
// Everything else is decided by the owner. Any number of goroutines may use it; checks of the same key wait for each
// other for less than a microsecond. A key that has a lease, or asks for one, has a goroutine, and close waits for all
// of them.
type leases struct {
	policies func() *policy.Revision
	decide   func(context.Context, []shard.Request) []shard.Result
	told     func(*shard.Request, *shard.Decision)
	clock    func() leaseTime
	holder   string        // of this life of the process: never used again
	number   atomic.Uint64 // of the newest lease
	seed     maphash.Seed
	stripes  [leaseStripes]leaseStripe
	ctx      context.Context // ends some time after close has begun
	cancel   context.CancelFunc
	keepers  sync.WaitGroup // is added to under the lock of a stripe, and not once closing is set
	closing  atomic.Bool
}

// leaseTime is an instant on both clocks of a holder.
type leaseTime struct {
	boot limit.Span // since some instant of this process, also while the machine sleeps
	wall limit.Time
}

// leaseStripe is the part of the table for some keys.
type leaseStripe struct {
	mu   sync.Mutex
	keys map[leaseName]*leasedKey // guarded by mu, as are the keys themselves
}

// leaseName is what a lease is of. The owner alone knows the override of a key, so an entry with a tier has leases of
// its own.
type leaseName struct {
	namespace, policy, key, tier string
	hashed                       bool
}

// newLeases returns leases that ask by decide. If config has no Policies, it returns nil, which holds nothing.
func newLeases(config *Config, decide func(context.Context, []shard.Request) []shard.Result) *leases {
	if config.Policies == nil {
		return nil
	}
	l := &leases{policies: config.Policies, decide: decide, told: config.Repeated, holder: rand.Text(),
		seed: maphash.MakeSeed()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	begin, ahead, slept, wall := time.Now(), config.Ahead, config.Slept, config.Now
	l.clock = func() leaseTime {
		boot := time.Since(begin) + slept() + ahead()
		return leaseTime{limit.Span(boot / time.Microsecond), limit.Time(wall().UnixMicro())}
	}
	for i := range l.stripes {
		l.stripes[i].keys = make(map[leaseName]*leasedKey)
	}
	return l
}

// stripe returns the part of the table that has a key, under all policies and tiers.
func (l *leases) stripe(key string) *leaseStripe {
	return &l.stripes[maphash.String(l.seed, key)%leaseStripes]
}

// revision returns the current policies if they allow leases, else nil. l may be nil.
func (l *leases) revision() *policy.Revision {
	if l == nil {
		return nil
	}
	if revision := l.policies(); revision != nil && revision.Set.GrantsLeases() {
		return revision
	}
	return nil
}

// leasable returns the policy whose lease may answer the request, or nil.
func leasable(set *policy.Set, r *shard.Request) *policy.Policy {
	if r.Op != shard.Check || r.ID != "" || r.Retry || r.Number != 0 || r.NotAfter != 0 || r.Operation != nil ||
		len(r.Entries) != 1 {
		return nil
	}
	e := &r.Entries[0]
	if p, known := set.Lookup(e.Policy); known && p.Lease != nil && e.Limits == nil && e.Cost > 0 {
		return p
	}
	return nil
}

// answer answers a request from a lease, and reports whether it did. If counts is set, a request that it does not
// answer counts as one more that a lease might have answered.
func (l *leases) answer(revision *policy.Revision, r *shard.Request, counts bool, into *shard.Decision) bool {
	p := leasable(revision.Set, r)
	if p == nil {
		return false
	}
	e := &r.Entries[0]
	name := leaseName{r.Namespace, e.Policy, e.Key, e.Tier, r.Hashed}
	s := l.stripe(e.Key)
	s.mu.Lock()
	k, at := s.keys[name], l.clock()
	if k == nil && counts {
		k = s.add(name, at.boot)
	}
	answered := k != nil && k.spend(e.Cost, revision.Version, at, into)
	if k != nil && (answered || counts) {
		k.note(e.Cost, at.boot)
		l.start(k, p, at.boot)
	}
	s.mu.Unlock()
	if answered {
		l.told(r, into) //mutant:leased-answer-unseen
	}
	return answered
}

// wrap answers requests of this node's callers from leases, passes on the rest, and returns one result for each, in
// their order. A nil receiver passes on all requests.
func (l *leases) wrap(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	revision := l.revision()
	if revision == nil || l.changesAny(requests) {
		return l.pass(requests, decide)
	}
	var results []shard.Result // nil: none is answered yet
	answered := 0
	for i := range requests {
		var d shard.Decision
		if l.answer(revision, &requests[i], true, &d) {
			if results == nil {
				results = make([]shard.Result, len(requests))
			}
			results[i].Decision = d
			answered++
		}
	}
	if answered == 0 {
		return decide(requests)
	}
	var places []int
	for i := range results {
		if !results[i].Decision.Leased() {
			places = append(places, i)
		}
	}
	if len(places) > 0 {
		atPlaces(requests, places, results, decide)
	}
	return results
}

// pass passes requests on. It returns the leases of keys that they change by hand, before, so that the owner knows what
// was spent, and after, as one may have been granted meanwhile. A nil receiver holds none.
func (l *leases) pass(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	if l != nil && l.changesAny(requests) {
		l.end(requests)       //mutant:lease-survives-a-change
		defer l.end(requests) //mutant:lease-granted-beside-a-change
	}
	return decide(requests)
}

func (l *leases) changesAny(requests []shard.Request) bool {
	for i := range requests {
		if changesLeases(requests[i].Op) {
			return true
		}
	}
	return false
}

// changesLeases reports whether an operation changes a key by hand, so that the owner may admit it otherwise from now
// on.
func changesLeases(op shard.Op) bool {
	switch op {
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.Forget:
		return true
	}
	return false
}

// end returns the leases of the keys that the requests change. It waits for the owner, as the requests would.
func (l *leases) end(requests []shard.Request) {
	var owed []shard.Request
	for i := range requests {
		r := &requests[i]
		switch {
		case r.Op == shard.Forget && r.Adjustment != nil:
			owed = l.endKey(leaseName{namespace: r.Namespace, key: r.Adjustment.Forget}, true, owed)
		case r.Op != shard.Forget && changesLeases(r.Op):
			for j := range r.Entries {
				e := &r.Entries[j]
				owed = l.endKey(leaseName{namespace: r.Namespace, policy: e.Policy, key: e.Key}, false, owed)
			}
		}
	}
	if len(owed) > 0 {
		ctx, cancel := context.WithTimeout(l.ctx, leaseWithin)
		defer cancel()
		for i, result := range l.decide(ctx, owed) {
			if result.Err != nil {
				l.giveBackLater(owed[i])
			}
		}
	}
}

// giveBackLater goes on to return a lease that the owner could not be told of.
func (l *leases) giveBackLater(owed shard.Request) {
	s := l.stripe(owed.Entries[0].Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.closing.Load() {
		l.keepers.Go(func() { l.giveBack([]shard.Request{owed}, policy.LeaseForMax) })
	}
}

// giveBack tells the owner what it is owed. A lease of so long a life has ended by then.
func (l *leases) giveBack(owed []shard.Request, life limit.Span) {
	ctx, cancel := context.WithTimeout(l.ctx, time.Duration(life)*time.Microsecond+leaseWithin)
	defer cancel()
	l.decide(ctx, owed)
}

// endKey ends the leases of a key in all tiers, and with forget under all policies. It appends what returns them.
func (l *leases) endKey(of leaseName, forget bool, owed []shard.Request) []shard.Request {
	s := l.stripe(of.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.keys {
		if name.key != of.key || name.namespace != of.namespace || !forget && name.policy != of.policy {
			continue
		}
		k.changes++ // one that is being asked for is not held
		if k.lease != nil {
			owed = append(owed, name.request(k.lease.returned(l.holder)))
			k.lease = nil
			k.rouse()
		}
		if k.forgotten = k.forgotten || forget; k.forgotten && !k.kept {
			delete(s.keys, name) //mutant:forgotten-key-among-leases
		}
	}
	return owed
}

// request makes the request of a lease.
func (n leaseName) request(t shard.LeaseTerms) shard.Request {
	return shard.Request{Op: shard.Lease, Namespace: n.namespace, Hashed: n.hashed,
		System:  &shard.SystemTerms{Lease: &t},
		Entries: []shard.Entry{{Policy: n.policy, Key: n.key, Tier: n.tier}}}
}

// held returns how many leases this node holds.
func (l *leases) held() (n int) {
	if l == nil {
		return 0
	}
	for i := range l.stripes {
		s := &l.stripes[i]
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

// close returns all leases, within leaseWithin, and asks for none any more. l may be nil.
func (l *leases) close() {
	if l == nil {
		return
	}
	l.closing.Store(true)
	for i := range l.stripes {
		s := &l.stripes[i]
		s.mu.Lock()
		for _, k := range s.keys {
			k.rouse()
		}
		s.mu.Unlock()
	}
	patience := time.AfterFunc(leaseWithin, l.cancel)
	l.keepers.Wait()
	patience.Stop()
	l.cancel()
}
