package cluster

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	denialSlots   = 1 << 13
	denialStripes = 1 << 10
	// denialBytesMax bounds one denial, roughly. What takes more is asked every time; all of them hold 32 MiB at most.
	denialBytesMax = 4 << 10
)

// denials is what this node repeats without asking again, where the policies allow it (policy.Policy.DenyCache, SEMANTICS
// X12). Only denials are in it, so it can refuse for a while what would be admitted by now, and never admits too much.
//
// A denial stands for the whole request: namespace, and of each entry policy, key, cost and tier. It is repeated while
// all of this holds:
//
//   - It was asked for less than the shortest DenyCache of its policies ago, and less than its own RetryAfter. The time
//     is this process's own, which only goes forward, and counts from before the request left.
//   - The policies that this node knows are still those of then.
//   - Nothing that may make room for one of its keys has passed here since the request left.
//
// Any number of goroutines may use it, and none ever waits for another: a denial is never changed once it is in its slot,
// and what makes room does not look for the denials that it ends. It moves on the count of changes that they carry.
type denials struct {
	policies func() *policy.Revision
	now      func() limit.Span // since an instant of this process; it never goes back
	seed     maphash.Seed
	slots    [denialSlots]atomic.Pointer[denial] // each request has two: its own and that one's neighbour
	changes  [denialStripes]atomic.Uint64        // what may have made room, by key
	anywhere atomic.Uint64                       // what may have made room for any key
}

// newDenials makes an empty one; nil, which repeats nothing, where no policies are known.
func newDenials(policies func() *policy.Revision) *denials {
	if policies == nil {
		return nil
	}
	begin := time.Now()
	return &denials{policies: policies, seed: maphash.MakeSeed(), now: func() limit.Span {
		return limit.Span(time.Since(begin) / time.Microsecond)
	}}
}

// denial is one that may be repeated.
type denial struct {
	inquiry
	namespace string
	entries   []shard.Entry
	revision  uint64     // of the policies by which it may be repeated
	decided   limit.Span // not before this instant of our clock
	heard     limit.Span // by then its RetryAfter began
	dies      limit.Span // from this instant on it is not repeated
	decision  shard.Decision
}

// inquiry is a request that a denial may answer, as it was when it was asked.
type inquiry struct {
	place   int        // among the requests that came together
	hash    uint64     // of the whole request
	changes uint64     // of its keys, when it was asked
	life    limit.Span // the shortest DenyCache of its policies
}

// inquire reports whether the answer to a request may be one that another was given, and may be given to another: an
// ordinary check without an id, all of whose policies allow it, that nobody may have counted yet.
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
		q.hash = mix(mix(q.hash^key)^e.Cost) ^ maphash.String(d.seed, e.Tier)
	}
	return q, true
}

// hashOf is of the counter that an entry is about.
func (d *denials) hashOf(namespace string, e *shard.Entry) uint64 {
	h := mix(maphash.String(d.seed, e.Key)) ^ maphash.String(d.seed, e.Policy)
	return mix(h) ^ maphash.String(d.seed, namespace)
}

// mix spreads a hash that others are to be added to.
func mix(h uint64) uint64 {
	high, low := bits.Mul64(h, 0x9E3779B97F4A7C15) // 2^64 over the golden ratio, which is odd
	return high ^ low
}

func (d *denials) stripe(key uint64) *atomic.Uint64 { return &d.changes[key%denialStripes] }

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

// stands reports whether nothing has ended the denial, if the request is its own.
func (k *denial) stands(q *inquiry, revision uint64, now limit.Span) bool {
	return k.hash == q.hash && k.changes == q.changes && k.revision == revision && now < k.dies
}

// answers reports whether the request is the one that was denied.
func (k *denial) answers(r *shard.Request) bool {
	if k.namespace != r.Namespace || len(k.entries) != len(r.Entries) {
		return false
	}
	for i := range r.Entries {
		a, b := &k.entries[i], &r.Entries[i]
		if a.Key != b.Key || a.Cost != b.Cost || a.Policy != b.Policy || a.Tier != b.Tier {
			return false
		}
	}
	return true
}

// repeat writes the denial into an answer, with what is left of its waits. The statuses are written into limits, which
// has their length.
func (k *denial) repeat(now limit.Span, limits []shard.LimitStatus, into *shard.Decision) {
	passed := now - k.heard
	*into = k.decision
	into.Age = max(1, now-k.decided)
	into.RetryAfter = left(k.decision.RetryAfter, passed)
	into.Limits = limits
	copy(limits, k.decision.Limits)
	for i := range limits {
		limits[i].RetryAfter = left(limits[i].RetryAfter, passed)
	}
}

// left is what is left of a wait. There is always some, and none of no wait, nor of limit.Never.
func left(wait, passed limit.Span) limit.Span {
	if wait <= 0 {
		return wait
	}
	return max(1, wait-passed)
}

// keep puts a denial where the next such request finds it. The request was asked at one instant, and answered at another.
// What is not worth repeating is not kept: an admission above all, and what some shard has counted.
func (d *denials) keep(q *inquiry, r *shard.Request, said *shard.Decision, revision *policy.Revision, asked, heard limit.Span) {
	if said.Allowed || said.Replayed || said.Index != 0 || said.RetryAfter == 0 || said.Age < 0 || said.Age >= q.life {
		return
	}
	// What comes from a node that repeats it lives no longer here than there.
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

func denialBytes(r *shard.Request, said *shard.Decision) int {
	const statusBytes, entryBytes = 256, 128
	size := statusBytes*len(said.Limits) + entryBytes*len(r.Entries)
	for i := range r.Entries {
		size += len(r.Entries[i].Key)
	}
	return size
}

// room chooses the slot for a denial that dies at some instant: where the same request is, an empty one, or the one whose
// denial dies first. There is none where the same is kept for as long already.
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

// size is how many denials would be repeated now if they were asked for, and their policies and keys had not changed.
func (d *denials) size() (n int) {
	if d == nil {
		return 0
	}
	now := d.now()
	for i := range d.slots {
		if kept := d.slots[i].Load(); kept != nil && now < kept.dies {
			n++
		}
	}
	return n
}
