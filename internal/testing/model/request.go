package model

import (
	"encoding/json"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Charge is one (policy, key) of a request, with its cost.
type Charge struct {
	Policy, Key string
	Cost        uint64
	Tier        string
	// Inline is a policy from the request in place of a named one, with no other numbers. Its limits have their own
	// counters.
	Inline *policy.Policy
}

func (c Charge) address() address {
	if c.Inline != nil {
		return address{"~" + c.Policy, c.Key}
	}
	return address{c.Policy, c.Key}
}

// Op is the operation of a request.
type Op uint8

// The operations. Their numbers are those of package shard, which is judged here and not imported.
const (
	Take           Op = 1 // decide and count, all or nothing
	Peek           Op = 2 // decide without counting
	Get            Op = 3 // the state of the limits
	Reset          Op = 4 // reset the keys to rest
	Count          Op = 8 // count, regardless of the limits
	Partial        Op = 9 // take as much as fits
	Reserve        Op = 10
	Settle         Op = 11
	SetUsed        Op = 12
	AddUsed        Op = 13
	Block          Op = 14
	Unblock        Op = 15
	PutOverride    Op = 16
	DeleteOverride Op = 17
	Tally          Op = 25
	ReadTally      Op = 26
	Forget         Op = 27 // end everything that is kept of the first charge's key, under any policy
	CorrectUsage   Op = 32 // add units to a period of the key's bill, in a figure of their own
)

// deciding reports whether limits and blocks can deny the operation.
func (o Op) deciding() bool { return o == Take || o == Peek || o == Partial || o == Reserve }

// Decided is one request with its shard's answer.
type Decided struct {
	Place   Place // of the entry that covers the answer
	Op      Op
	ID      string // idempotency id; may be empty
	Slot    uint32 // of the request; each slot has ids of its own
	Charges []Charge
	Limit   string // Reset, SetUsed, AddUsed: applies only to the limit of this name

	TTL        limit.Span      // Reserve
	OnExpire   policy.OnExpire // Reserve
	Settlement *Settlement     // Settle
	Amount     int64           // SetUsed, AddUsed, CorrectUsage
	Until      limit.Time      // Block
	Override   *policy.Override
	Tally      *TallyTerms // Tally
	Correction *Correction // CorrectUsage

	Refused Refusal // the answer was an error; Answer is empty then
	Answer  Answer  // as the shard gave it
}

// reads reports whether a request changes nothing on an entry.
func (d *Decided) reads(c Charge) bool {
	return d.Op == Peek || d.Op == Get || d.Op == ReadTally || d.Op == Take && c.Cost == 0
}

// request is everything that an id stands for, as text.
func (d *Decided) request() string {
	all := []any{d.Op, d.Limit, d.TTL, d.OnExpire, d.Amount, d.Until, d.Tally, d.Settlement, d.Correction, d.Override}
	for _, c := range d.Charges {
		all = append(all, c.Policy, c.Key, c.Cost, c.Tier)
		if c.Inline != nil {
			all = append(all, c.Inline.Limits)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it is text and numbers
	}
	return string(text)
}

// Settlement is the request of a Settle. The numbers of Action and Overage are those of package shard.
type Settlement struct {
	Target  Target
	Action  Action
	Actual  []uint64   // Commit: units by entry; nil: what was taken
	Overage Overage    // Commit
	TTL     limit.Span // Extend: from now on
}

// Target names a hold or a decision by its place.
type Target struct {
	Hold  bool // else a decision
	Place Place
	Index uint32 // Answer.Index
}

// Action is what a settlement does.
type Action uint8

// The actions.
const (
	Commit  Action = 1
	Cancel  Action = 2
	Extend  Action = 3
	Success Action = 4
	Failed  Action = 5
)

// Overage is how to treat spending above a hold.
type Overage uint8

// The overages.
const (
	Clamp  Overage = 0
	Debt   Overage = 1
	Reject Overage = 2
)
