package shard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/placement"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = placement.DefaultNamespace

// keyBytesMax bounds a caller's key (DESIGN.md, section 8).
const keyBytesMax = 512

// KeyProblem says what is wrong with a caller's key, to be read behind the name of its field; "" nothing. Evaluate does
// not ask: whoever makes a Request does.
func KeyProblem(key string) string {
	switch {
	case key == "":
		return "is missing"
	case len(key) > keyBytesMax:
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(key), keyBytesMax)
	}
	for i, c := range key {
		if c == utf8.RuneError && !strings.HasPrefix(key[i:], "\uFFFD") {
			return fmt.Sprintf("is not valid UTF-8 at byte %d", i)
		}
		if unicode.IsControl(c) {
			return fmt.Sprintf("has the control character %U at byte %d", c, i)
		}
	}
	return ""
}

// Op is what a request asks for.
type Op uint8

// The operations.
const (
	Check Op = iota + 1 // decide and count, all or nothing
	Peek                // decide without counting
	Get                 // the state of the limits, deciding nothing
	Reset               // put the limits of one key back to rest

	// The rest is not for clients of the API.

	OpenSession // begin a session: Decision.Told names it
	Fetch       // the document named Document: Decision.Told has it
	Swap        // replace the document named Document if its version is Expect: Decision.Told has the new version

	// For clients of the API again.

	Count          // count whatever the limits say
	Partial        // take as much of each entry's cost as its limits have room for; denied when one has room for nothing
	Reserve        // as Check, and the units are a hold until they are settled: Hold says how
	Settle         // end or extend a hold, or refund a decision: Settlement says which and how
	SetUsed        // Adjustment.Amount is used from now on
	AddUsed        // Adjustment.Amount more (or less, if negative) is used
	Block          // deny everything until Adjustment.Until
	Unblock        // end a block, and the lockout ladder
	PutOverride    // the key has Adjustment.Override from now on
	DeleteOverride // the key has no override
	ReadAudit      // the newest changes of the shard: Decision.Told has them. Such a request has one entry of any key of the shard

	// Parts of an operation on several shards, for the coordinator (Operation says which): see operation.go.

	AskHome     // home: the recorded outcome, or none
	Charge      // another shard: decide and charge its entries under the operation's id
	Conclude    // home: decide its own entries, and with them the whole, once
	ResolveHome // home: what became of the operation; if it knows nothing it is aborted from now on
	FinishLeg   // another shard: do with the leg what home has decided
	Acknowledge // home: a leg has done so

	// For the Redis protocol: a request with one entry, whose Limits are TallyLimits.

	Tally     // do with the key's tally what Request.Tally says: Decision.Tallied is what it came to
	ReadTally // Decision.Tallied, changing nothing
)

// Request is one operation on keys of one shard. It is read by the actor after the caller handed it over: the caller
// must not change it, nor its Entries, until the answer is there.
type Request struct {
	Op        Op
	Namespace string
	Entries   []Entry
	Limit     string // Reset: only the limit of this name; "" all limits of the policy
	ID        string // idempotency id; "" none
	// NotAfter is the last shard time at which the request may still be decided, in microseconds since the Unix
	// epoch; 0 is no bound. A copy that was stuck on its way must not run when the record of its id is gone.
	NotAfter limit.Time

	// Session is the entry node's session with this shard, of which this is the Number-th request; the zero Session is
	// none. See Session.
	Session Session
	Number  uint64 // from 1
	Acked   uint64 // every request of the session up to this number is finished: its caller has its answer, or gave up
	Retry   bool   // another copy of the request may have been decided, or may yet arrive

	// Fetch and Swap. Such a request has no entries.
	Document string
	Expect   uint64 // the version that is to be replaced; 0: there must be none
	Body     []byte // the new document

	// What only some operations have; nil for all others.
	Hold       *HoldTerms  // Reserve
	Settlement *Settlement // Settle
	Adjustment *Adjustment // Reset, SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride: nil says nothing more
	Operation  *Operation  // AskHome and those after it
	Tally      *TallyTerms // Tally
}

// HoldTerms says how a hold ends when nobody settles it.
type HoldTerms struct {
	TTL      limit.Span // from the decision on: 1 us to MaxHoldTTL
	OnExpire policy.OnExpire
}

// MaxHoldTTL is the longest life that a hold is given at once: 31 days. Extend gives it more.
const MaxHoldTTL = limit.Span(31 * 24 * 3600 * 1_000_000)

// Action is what a settlement does. The numbers stand in records and cross the wire: append, never renumber.
type Action uint8

// The actions.
const (
	ActionCommit  Action = 1 // Actual is spent, the rest given back
	ActionCancel  Action = 2 // everything is given back
	ActionExtend  Action = 3 // the hold lives for TTL from now on
	ActionSuccess Action = 4 // cancel, and clear (or step down) failures and ladder
	ActionFailed  Action = 5 // commit what was held, and that is a violation
)

// Overage says what becomes of what was spent above a hold. The numbers cross the wire.
type Overage uint8

// The overages.
const (
	OverageClamp  Overage = 0 // counted as far as the quota has room
	OverageDebt   Overage = 1 // counted above the quota if need be
	OverageReject Overage = 2 // the commit is refused if it does not fit; the hold stays open
)

// Settlement ends or extends a hold, or refunds a decision. The request's entries are those of the hold or decision,
// each with the cost that was taken.
type Settlement struct {
	Target  Target
	Action  Action
	Actual  []uint64 // ActionCommit: one for each entry, 0 too; nil: what was taken
	Overage Overage
	TTL     limit.Span // ActionExtend
}

// Target names a hold or a counted decision: by its place, or by the id of its operation if that was on several shards.
type Target struct {
	Hold      bool // else a decision
	Position  Position
	Index     uint32
	DecidedAt limit.Time
	// Retention is how long after DecidedAt a decision may be settled, as its policies said then: so a longer one that
	// they are given later does not bring back what was refunded. 0: what they say now.
	Retention limit.Span
	Operation string // "" for one shard
	Home      ID     // of the operation
}

// Adjustment is what a person changes, and what the audit log says of it.
type Adjustment struct {
	Amount   int64 // SetUsed, AddUsed
	Until    limit.Time
	Override *policy.Override
	Actor    string // who asked, as far as is known
	Note     string
}

// Entry names one policy on one key.
type Entry struct {
	Policy string
	Key    string
	Cost   uint64 // 1..2^40; Get and Reset ignore it
	Tier   string // "" is the key's override, else the policy's default tier
	// Limits are used in the place of a policy's; nil: the policy's. Policy is then a name for people, "" too, and the
	// key is another than that of a policy of this name.
	Limits []policy.Limit
	// Counted is for the Settle of a decision, and names the limits that have counted its Cost; nil: none has. Nothing is
	// given back to any other. Taken fills it in.
	Counted []LimitPrint
}

// Result answers one Request: a decision, or the reason why there is none.
type Result struct {
	Decision Decision // when Err is nil
	Err      *Error   // never a denial: a denial is a decision
}

// Decision is allowed or denied with the state of every limit, from one commit.
type Decision struct {
	Allowed      bool
	ShadowDenied bool          // a shadowed limit or policy would have denied
	Replayed     bool          // answered from the idempotency record
	Index        uint32        // from 1, among the counted requests of its batch; 0: nothing was counted, nothing to refund
	Limits       []LimitStatus // in the order of the entries, then of the policy; none of a tally
	RetryAfter   limit.Span    // on a denial the exact wait, or limit.Never; 0 when allowed
	DecidedAt    limit.Time    // shard time
	// Age is of a denial that a node repeated without asking again, as its policies allow (policy.Policy.DenyCache): how
	// long ago it was decided, at most. RetryAfter counts from the repetition on. 0: decided for this request.
	Age         limit.Span
	Position    Position
	HoldExpires limit.Time // Reserve: when the hold ends if nobody settles it; 0: there is none

	// What only some operations have; nil for all others.
	Operation *Verdict // of an operation on several shards; nil: one shard decided
	Tallied   *Tallied // answer to Tally and ReadTally
	Told      *Told    // answer to what decides nothing about a key
}

// Told is what the operations answer with that decide nothing about a key.
type Told struct {
	Session  Session       // OpenSession
	Document Document      // Fetch and Swap
	Audit    []AuditRecord // ReadAudit, newest first
}

// Session is the answer to OpenSession, and zero for all others.
func (d *Decision) Session() Session {
	if d.Told == nil {
		return Session{}
	}
	return d.Told.Session
}

// Document is the answer to Fetch and Swap, and zero for all others.
func (d *Decision) Document() Document {
	if d.Told == nil {
		return Document{}
	}
	return d.Told.Document
}

// Audit is the answer to ReadAudit, newest first, and empty for all others.
func (d *Decision) Audit() []AuditRecord {
	if d.Told == nil {
		return nil
	}
	return d.Told.Audit
}

// LimitStatus is one limit of one entry as the decision left it.
type LimitStatus struct {
	Policy, Limit, Key string
	Quota              uint64
	Unlimited          bool // counted, never denied: Quota and Remaining mean nothing and are 0
	Shadow             bool
	Blocked            bool       // the block until BlockedUntil denies
	LockoutLevel       uint32     // blocks of the ladder so far
	BlockedUntil       limit.Time // the key is blocked until then; 0: it is not
	Uncounted          bool       // a concurrency limit that was asked about what is no hold: so it counted nothing
	Held               uint64     // of Used: reserved and not settled
	Granted            uint64     // Partial: what was taken
	limit.Verdict
}

// AuditRecord is one change that somebody made.
type AuditRecord struct {
	At                     limit.Time
	Position               Position
	Actor                  string
	Namespace, Policy, Key string
	Limit                  string // "" all limits
	Deed                   string // "reset", "set", "add", "block", "unblock", "put_override", "delete_override"
	Before, After          string // in words
	Note                   string
}

// Position says where in which shard's history something was decided: the seq-th entry of an epoch.
type Position struct {
	Shard ID
	Epoch uint64
	Seq   uint64
}
