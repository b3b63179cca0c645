package shard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/limit"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = "default"

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

	OpenSession // begin a session: Decision.Session names it
	Fetch       // the document named Document: Decision.Document
	Swap        // replace the document named Document if its version is Expect: Decision.Document is the new one
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
}

// Entry names one policy on one key.
type Entry struct {
	Policy string
	Key    string
	Cost   uint64 // 1..2^40; Get and Reset ignore it
	Tier   string // "" is the policy's default tier
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
	Limits       []LimitStatus // in the order of the entries, then of the policy
	RetryAfter   limit.Span    // on a denial the exact wait, or limit.Never; 0 when allowed
	DecidedAt    limit.Time    // shard time
	Position     Position
	Index        uint32 // from 1, among the counted requests of its batch; 0: nothing was counted, nothing to refund

	Session  Session  // answer to OpenSession
	Document Document // answer to Fetch and Swap
}

// LimitStatus is one limit of one entry as the decision left it.
type LimitStatus struct {
	Policy, Limit, Key string
	Quota              uint64
	Unlimited          bool // counted, never denied: Quota and Remaining mean nothing and are 0
	Shadow             bool
	limit.Verdict
}

// Position says where in which shard's history something was decided: the seq-th entry of an epoch.
type Position struct {
	Shard ID
	Epoch uint64
	Seq   uint64
}
