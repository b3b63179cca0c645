package routing

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	denialSlots   = 1 << 13
	denialStripes = 1 << 10
	// denialBytesMax bounds the approximate size of one denial. A larger one is not kept. All denials together take at
	// most 32 MiB.
	denialBytesMax = 4 << 10
)

// denials holds the denials that this node repeats without asking the owner, as the policies allow
// (policy.Policy.DenyCache, X12). It holds no admissions, so it may for a while refuse a request that would be admitted
// by now, but never admits too much.
//
// A denial applies to one whole request: its namespace, and the policy, key, cost and tier of each entry. It is
// repeated while all of these hold:
//
//   - It is younger than the shortest DenyCache of its policies, and younger than its own RetryAfter. Its age is
//     measured on this process's own monotonic clock, from before the request was sent.
//   - The policies that this node knows have not changed since.
//   - No request that may free capacity on one of its keys has passed this node since the request was sent.
//
// Any number of goroutines may use it, and none waits for another, except while a repetition is counted. A denial is
// never changed once it is in its slot. A request that frees capacity does not look for the denials that it ends: it
// increments change counts, and a denial is valid only while the counts that it carries are current.
type denials struct {
	policies func() *policy.Revision               // Config.Policies
	repeated func(*shard.Request, *shard.Decision) // Config.Repeated
	now      func() limit.Span                     // time since some instant of this process; never goes backward
	seed     maphash.Seed
	slots    [denialSlots]atomic.Pointer[denial] // each request has two: its own and the neighboring one
	changes  [denialStripes]atomic.Uint64        // requests that may have freed capacity, by key
	anywhere atomic.Uint64                       // requests that may have freed capacity on any key
}

func newDenials(config *Config) *denials {
	begin, ahead := time.Now(), config.Ahead
	return &denials{policies: config.Policies, repeated: config.Repeated, seed: maphash.MakeSeed(),
		now: func() limit.Span {
			return limit.Span((time.Since(begin) + ahead()) / time.Microsecond)
		}}
}

// inquiry is a request that a denial may answer, with the state at the time it was asked.
type inquiry struct {
	place   int        // index in the batch
	hash    uint64     // of the whole request
	changes uint64     // change count of its keys, when it was asked
	life    limit.Span // the shortest DenyCache of its policies
}

// inquire reports whether the request may share its answer with others: it must be an ordinary check without an id that
// cannot have been counted yet, and all its policies must allow it.
func (d *denials) inquire(set *policy.Set, r *shard.Request) (q inquiry, ok bool) {
	if r.Op != shard.Check || r.ID != "" || r.Retry || r.Operation != nil || len(r.Entries) == 0 {
		return q, false
	}
	q.life, q.changes = policy.DenyCacheMax, d.anywhere.Load()
	for i := range r.Entries {
		e := &r.Entries[i]
		p, known := set.Lookup(e.Policy)
		if !known || p.DenyCache == 0 || e.Limits != nil {
			return q, false
		}
		q.life = min(q.life, p.DenyCache)
		key := d.hashOf(r.Namespace, e)
		// Each count only grows, so the sum is the same only while each of them is.
		q.changes += d.stripe(key).Load()
		q.hash = mixHash(mixHash(q.hash^key)^e.Cost) ^ maphash.String(d.seed, e.Tier)
	}
	return q, true
}

// hashOf returns the hash of an entry's counter.
func (d *denials) hashOf(namespace string, e *shard.Entry) uint64 {
	h := mixHash(maphash.String(d.seed, e.Key)) ^ maphash.String(d.seed, e.Policy)
	return mixHash(h) ^ maphash.String(d.seed, namespace)
}

// mixHash spreads a hash before another one is combined with it.
func mixHash(h uint64) uint64 {
	high, low := bits.Mul64(h, 0x9E3779B97F4A7C15) // 2^64 over the golden ratio, which is odd
	return high ^ low
}

func (d *denials) stripe(key uint64) *atomic.Uint64 { return &d.changes[key%denialStripes] }

// slot returns one of the two slots of a request; way is 0 or 1.
func (d *denials) slot(q *inquiry, way uint64) *atomic.Pointer[denial] {
	return &d.slots[(q.hash^way)%denialSlots]
}

// find returns a denial that answers the request now, or nil.
func (d *denials) find(q *inquiry, r *shard.Request, revision uint64, now limit.Span) *denial {
	for way := range uint64(2) {
		if kept := d.slot(q, way).Load(); kept != nil && kept.stands(q, revision, now) && kept.answers(r) {
			return kept
		}
	}
	return nil
}

// keep stores a denial for the next such request. asked and heard are the instants of the request and of its answer.
// Answers not worth repeating are not kept: above all admissions, and anything that a shard has counted.
func (d *denials) keep(
	q *inquiry, r *shard.Request, said *shard.Decision, revision *policy.Revision, asked, heard limit.Span,
) {
	//mutant:repeated-denial-admits
	if said.Allowed || said.Replayed || said.Index != 0 || said.RetryAfter == 0 || said.Age < 0 || said.Age >= q.life {
		return
	}
	// An answer repeated by another node lives no longer here than there.
	decided := asked - said.Age
	dies := decided + q.life
	if said.RetryAfter != limit.Never {
		dies = min(dies, asked+said.RetryAfter)
	}
	if dies <= heard || denialBytes(r, said) > denialBytesMax {
		return
	}
	slot := d.room(q, r, revision.Version, heard, dies)
	if slot == nil {
		return
	}
	k := &denial{inquiry: *q, revision: revision.Version, decided: decided, heard: heard, dies: dies, decision: *said}
	if k.own(r, revision.Set) {
		slot.Store(k)
	}
}

// room chooses the slot for a denial that ends at dies: the one that holds the same request, an empty one, or the one
// that is free first. It returns nil if the same request's denial is already kept for as long.
func (d *denials) room(q *inquiry, r *shard.Request, revision uint64, now, dies limit.Span) *atomic.Pointer[denial] {
	var chosen *atomic.Pointer[denial]
	first := limit.Span(0)
	for way := range uint64(2) {
		slot := d.slot(q, way)
		switch kept := slot.Load(); {
		case kept == nil:
			if chosen == nil || first > 0 {
				chosen, first = slot, 0
			}
		case kept.hash == q.hash && kept.answers(r):
			if kept.stands(q, revision, now) && kept.dies >= dies {
				return nil
			}
			return slot
		case chosen == nil || kept.dies < first:
			chosen, first = slot, kept.dies
		}
	}
	return chosen
}

// size returns how many denials would be repeated now, provided that their policies and keys have not changed.
func (d *denials) size() (n int) {
	now := d.now()
	for i := range d.slots {
		if kept := d.slots[i].Load(); kept != nil && now < kept.dies {
			n++
		}
	}
	return n
}

// wrap answers requests that pass this node from the kept denials, passes on the rest, and returns one result for each,
// in their order. It keeps new denials that may be repeated, and ends those that a request may make untrue.
func (d *denials) wrap(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	if slices.ContainsFunc(requests, isForget) {
		d.forget(requests)
		defer d.forget(requests) // a denial may have been kept meanwhile
	}
	revision := d.revision()
	if revision == nil {
		return decide(requests)
	}
	p := denialPass{denials: d, revision: revision, requests: requests, asked: d.now()}
	p.repeat()
	all := decideRest(requests, p.results, func(r *shard.Result) bool { return r.Decision.Age != 0 }, decide)
	p.end(all)
	return all
}

// revision returns the current policies if they allow any denial to be repeated, else nil.
func (d *denials) revision() *policy.Revision {
	if revision := d.policies(); revision != nil && revision.Set.RepeatsDenials() {
		return revision
	}
	return nil
}

// answer repeats a denial if one answers the request.
func (d *denials) answer(r *shard.Request, into *shard.Decision) bool {
	revision := d.revision()
	if revision == nil {
		return false
	}
	q, ok := d.inquire(revision.Set, r)
	if !ok {
		return false
	}
	now := d.now()
	kept := d.find(&q, r, revision.Version, now)
	if kept == nil {
		return false
	}
	kept.repeat(now, make([]shard.LimitStatus, len(kept.decision.Limits)), into)
	d.repeated(r, into) //mutant:quick-denial-unseen
	return true
}

// makeRoom ends the denials that a request may have made untrue, or will make untrue when it is decided. It reports
// whether the request is of this kind. It is called before and after the request is decided: a denial asked for in
// between may predate the change, and is not kept.
func (d *denials) makeRoom(r *shard.Request) bool {
	switch r.Op {
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.Settle:
		for i := range r.Entries {
			d.stripe(d.hashOf(r.Namespace, &r.Entries[i])).Add(1)
		}
		return true
	case shard.FinishLeg:
		if state := r.Operation.Verdict.State; state != shard.OperationAborted && state != shard.OperationSettled {
			return false
		}
		if len(r.Entries) == 0 { // from a home that has forgotten the keys
			d.anywhere.Add(1)
		}
		for i := range r.Entries {
			d.stripe(d.hashOf(r.Namespace, &r.Entries[i])).Add(1)
		}
		return true
	}
	return false
}

func isForget(r shard.Request) bool { return r.Op == shard.Forget }

// forget drops the denials of keys that are being forgotten. The memory of a denial that is not repeated any more would
// hold its key until another one needs the slot.
func (d *denials) forget(requests []shard.Request) {
	for i := range requests {
		r := &requests[i]
		if r.Op != shard.Forget || r.Adjustment == nil {
			continue
		}
		d.anywhere.Add(1)
		for n := range d.slots {
			kept := d.slots[n].Load()
			if kept != nil && kept.namespace == r.Namespace &&
				slices.ContainsFunc(kept.entries, func(e shard.Entry) bool { return e.Key == r.Adjustment.Forget }) {
				d.slots[n].CompareAndSwap(kept, nil) //mutant:forgotten-key-among-denials
			}
		}
	}
}
