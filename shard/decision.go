package shard

import (
	"cmp"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

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
	Position    Position   // of the batch; with Index it names what was counted
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

// system returns d.System, which a reader makes first.
func (d *Decision) system() *SystemAnswer {
	if d.System == nil {
		d.System = &SystemAnswer{}
	}
	return d.System
}

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
	Unlimited          bool       // counted, never denied: Quota and Remaining are 0 and mean nothing
	Shadow             bool       // the limit or its policy is in shadow: it denies nothing
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
