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
	// Reset, SetUsed to DeleteOverride, Swap, Forget, CorrectUsage; nil leaves no audit record, for Reset and Swap only
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

// Result is the answer to one Request: a decision, or the error why there is none.
type Result struct {
	Decision Decision // when Err is nil
	Err      *Error   // never a denial: a denial is a decision
}

// RefuseAll returns n results with one error, the answer to requests that fail together.
func RefuseAll(n int, err *Error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// Decision is the outcome of one request, with the state of every limit, from one commit.
type Decision struct {
	Allowed      bool
	ShadowDenied bool // allowed, and a limit or policy in shadow would have denied
	Replayed     bool // answered from a record: it was decided before
	// Index is the number of the request among the counted ones of its batch, from 1; 0 if nothing was counted, so that
	// there is nothing to refund.
	Index      uint32
	Limits     []LimitStatus // in the order of the entries, then of the policy; none for a tally
	RetryAfter limit.Span    // of a denial: the exact wait, or limit.Never; 0 when allowed
	DecidedAt  limit.Time    // shard time
	// Age is how old a denial is, at most, if a node repeated it without asking again, as its policies allow
	// (policy.Policy.DenyCache). RetryAfter counts from the repetition. Of an admission from a lease it is how old the
	// lease is, at most: DecidedAt, Position and Limits are those of its grant. 0 if decided for this request.
	Age         limit.Span
	Position    Position
	HoldExpires limit.Time // Reserve: when the hold ends if it is not settled; 0 if there is no hold

	// Results of certain operations; nil for all others.
	Operation *Verdict      // of an operation on several shards; nil if one shard decided
	Tallied   *Tallied      // answer to Tally and ReadTally
	System    *SystemAnswer // answer to an operation that decides nothing about a key
}

// Leased reports whether a node has admitted the request from a lease, without asking.
func (d *Decision) Leased() bool { return d.Allowed && d.Age > 0 }

// Repeated reports whether a node has repeated a denial without asking.
func (d *Decision) Repeated() bool { return !d.Allowed && d.Age > 0 }

// Challenged reports whether a denial is a challenge: every limit that denies is soft, and no block denies. The caller
// may pass once it has shown that it is a person, and the application has reset those limits.
func (d *Decision) Challenged() bool {
	soft := false
	for i := range d.Limits {
		s := &d.Limits[i]
		denies := !s.Allowed && !s.Shadow && !s.Unlimited
		if s.Blocked || denies && !s.Soft { //mutant:soft-hides-block //mutant:soft-hides-hard
			return false
		}
		soft = soft || denies
	}
	return soft && !d.Allowed
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

// SystemAnswer is the answer to an operation that decides nothing about a key.
type SystemAnswer struct {
	Session  Session        // OpenSession
	Document Document       // Fetch, Swap; of the push of a ChangeEvents the new version
	Usage    *UsagePage     // ReadUsage; CorrectUsage: the corrected period
	Events   *EventsPage    // ReadEventPage
	Changed  *EventsChanged // ChangeEvents
	Audit    []AuditRecord  // ReadAudit, newest first
	Forgot   Forgot         // Forget
	// Slots are those that a ReadUsage or Forget is about: the shard's, at that time. nil: all. A caller that asks one
	// shard after the other has met every key if it has met every slot.
	Slots *slot.Set
	Moved *MoveAnswer // MoveSlot
	Lease *Leased     // Lease; of a Get, or a change by hand, what holders still have of the keys
	// Sealed is the id of what an edge's request has taken, which the node has sealed that the edge asked: an edge has
	// no secret.
	Sealed string
	// Fired is the thresholds that have fired in windows that have not ended, for Get: by entry, then the oldest first.
	Fired []FiredThreshold
}

// noAnswer is the SystemAnswer of a decision about a key. It must not be changed.
var noAnswer SystemAnswer

// Answer returns the answer to an operation that decides nothing about a key, and zero for all other operations. It must
// not be changed.
func (d *Decision) Answer() *SystemAnswer { return cmp.Or(d.System, &noAnswer) }

// Slots returns the slots that the answer to ReadUsage or Forget is about.
func (d *Decision) Slots() slot.Set {
	if d.Answer().Slots == nil {
		return slot.All()
	}
	return *d.System.Slots
}

// LimitStatus is one limit of one entry after the decision.
type LimitStatus struct {
	Policy, Limit, Key string
	Quota              uint64
	Unlimited          bool // counted, never denied: Quota and Remaining are 0 and mean nothing
	Shadow             bool
	Soft               bool       // if the limit denies, it is a challenge: see Decision.Challenged
	Blocked            bool       // the block until BlockedUntil denies
	ByHand             bool       // and the block was set by hand
	LockoutLevel       uint32     // blocks of the ladder so far
	BlockedUntil       limit.Time // the key is blocked until then; 0 if it is not
	Uncounted          bool       // gives nothing back: concurrency without a hold, or not all of the cost counted
	Held               uint64     // part of Used: reserved and not settled
	Granted            uint64     // Partial: units taken
	limit.Verdict
}

// Left returns the units that may still be spent: none while the key is blocked, regardless of the limit.
func (s *LimitStatus) Left() uint64 {
	if s.Blocked {
		return 0
	}
	return s.Remaining
}

// Position is a place in a shard's history: the seq-th entry of an epoch.
type Position struct {
	Shard ID
	Epoch uint64
	Seq   uint64
}
