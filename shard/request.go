package shard

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = slot.DefaultNamespace

// CanaryNamespace is the namespace of the keys by which nodes check that counting is exact. Clients cannot send its
// name, so it is in no list of keys.
const CanaryNamespace = "~canary"

// Request is one operation on keys of one shard. The actor reads it after the caller has handed it over, so the caller
// must not change it, nor its Entries, until the answer has arrived.
type Request struct {
	Op        Op
	Namespace string
	// Shard is the destination of an operation about a shard (Op.AboutShard); such a request has no Entries. The others
	// go to the shard of their keys. A frame between nodes names the shard of a call once, so a forwarded request comes
	// without it.
	Shard   ID
	Entries []Entry
	// Own is how many of the Entries the client has sent; those of parents follow them. 0 means all.
	Own   int
	Limit string // Reset, SetUsed, AddUsed: only the limit of this name; "" for all limits of the policy
	ID    string // idempotency id; may be empty
	// Revision is the version of the policies by which the parents of the Entries were added; 0 if they were not.
	Revision uint64
	// NotAfter is the last shard time at which the request may be decided, in microseconds since the Unix epoch; 0 for
	// no bound. A delayed copy must not run when the record of its id is gone.
	NotAfter limit.Time

	// Session is the entry node's session with this shard, and Number is the number of this request in it. The zero
	// Session means none. See Session.
	Session Session
	Number  uint64 // from 1
	// Acked: every request of the session up to this number is finished. Its caller has its answer, or has given up.
	Acked uint64
	Retry bool // another copy of the request may have been decided, or may yet arrive

	// Hashed means that the keys of the Entries are hashes, as the request's namespace requires. The node that received
	// the request has hashed them.
	Hashed bool

	// Fetch and Swap. Such a request has no entries.
	Document string
	Expect   uint64 // the version to be replaced; 0: the document must not exist
	Body     []byte // the new document

	// Parameters of certain operations; nil for all others.
	Hold       *HoldTerms  // Reserve
	Settlement *Settlement // Settle
	// Reset, SetUsed to DeleteOverride, Swap, Forget, CorrectUsage, ChangeEvents; nil, for Reset, Swap and ChangeEvents
	// only, leaves no audit record
	Adjustment *Adjustment
	Operation  *Operation   // AskHome to Acknowledge, and a Settle on several shards
	Tally      *TallyTerms  // Tally
	System     *SystemTerms // ReadUsage, ReadEventPage, ChangeEvents, NoteSpike, CorrectUsage, MoveSlot, Lease

	Trace Trace // traces the request; may be nil
}

// Slot returns the slot of the records about the request: the lowest slot of the keys that the client has named. So a
// copy of the request has the same, even if the parents of its policies have changed. All settlements of a hold or
// decision have the same, since its id has the keys.
func (r *Request) Slot() slot.ID {
	if r.Settlement != nil && r.Settlement.Target.Operation != "" {
		return r.Settlement.Target.Home
	}
	lowest := slot.ID(slot.Count - 1)
	for i := range r.Entries[:cmp.Or(r.Own, len(r.Entries))] { //mutant:home-of-a-parent
		lowest = min(lowest, slot.Of(r.Namespace, r.Entries[i].Key))
	}
	return lowest
}

// own returns the entries that the client has sent.
func (r *Request) own() []Entry {
	if r.Own == 0 {
		return r.Entries
	}
	return r.Entries[:min(r.Own, len(r.Entries))] //mutant:parents-are-of-the-request
}

// spans reports whether the request has keys of several slots.
func (r *Request) spans() bool {
	first := slot.Of(r.Namespace, r.Entries[0].Key)
	return slices.ContainsFunc(r.Entries[1:], func(e Entry) bool { return slot.Of(r.Namespace, e.Key) != first })
}

// Entry is one policy on one key, with a cost.
type Entry struct {
	Policy string
	Key    string
	// Cost is 1..2^40 units. With 0, for Check and Peek, the entry denies if there is no room for one unit, and counts
	// nothing. Get and Reset ignore it.
	Cost uint64
	Tier string // "" means the key's override, else the policy's default tier
	// Limits are used instead of a policy's; nil means the policy's. With Limits, Policy is only a label, possibly "",
	// and the counter is separate from that of a policy of this name.
	Limits []policy.Limit
	// Counted is for the Settle of a decision: the limits that have counted its Cost; may be nil. No other limit gets
	// anything back. Taken sets it.
	Counted []LimitPrint
}

// SystemTerms are the parameters of an operation that decides nothing about a key: one of the fields is set.
type SystemTerms struct {
	Usage      *UsageQuery   // ReadUsage
	Events     *EventsQuery  // ReadEventPage
	Change     *EventsChange // ChangeEvents
	Push       *Push         // ChangeEvents
	Spike      *Spike        // NoteSpike; its names are the request's
	Correction *Correction   // CorrectUsage
	Move       *MoveTerms    // MoveSlot
	Lease      *LeaseTerms   // Lease
}

// systemTerms returns the parameters, all nil if there are none.
func (r *Request) systemTerms() *SystemTerms { return cmp.Or(r.System, &SystemTerms{}) }

func (t *SystemTerms) code(c *MessageCodec) {
	usage, events, change, push, spike, correction, move, lease := t.Usage != nil, t.Events != nil, t.Change != nil,
		t.Push != nil, t.Spike != nil, t.Correction != nil, t.Move != nil, t.Lease != nil
	c.Flags(&usage, &events, &change, &push, &spike, &correction, &move, &lease)
	codec.Optional(&c.Codec, usage, &t.Usage, func(q *UsageQuery) { q.code(c) })
	codec.Optional(&c.Codec, events, &t.Events, func(q *EventsQuery) { q.code(c) })
	codec.Optional(&c.Codec, change, &t.Change, func(x *EventsChange) { x.code(c) })
	codec.Optional(&c.Codec, push, &t.Push, func(p *Push) { p.code(c) })
	codec.Optional(&c.Codec, spike, &t.Spike, func(s *Spike) { s.code(c) })
	codec.Optional(&c.Codec, correction, &t.Correction, func(x *Correction) { x.code(c) })
	codec.Optional(&c.Codec, move, &t.Move, func(m *MoveTerms) { m.code(c) })
	codec.Optional(&c.Codec, lease, &t.Lease, func(l *LeaseTerms) { l.code(c) })
}
