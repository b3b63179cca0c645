package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// Operation describes one request on several shards (X4). Its coordinator, the node that received the request, sends it
// to the shards. Its parts belong to slots, not to shards, since a slot may move while the operation goes on. So two of
// its legs may be on one shard.
type Operation struct {
	ID string // the client's idempotency id, or one drawn by the coordinator
	// Op is for Charge and Conclude: the Op of the whole, Check, Count, Partial or Reserve; Settle in the Charge of an
	// Excess.
	Op          Op
	Drawn       bool       // the coordinator drew the ID: no client will use it again
	Home        slot.ID    // the slot that decides: Request.Slot of the whole
	Fingerprint uint64     // of the whole request
	TTL         limit.Span // Charge: how long the leg waits for home before it asks
	Legs        []Leg      // Conclude: the answers of the other shards. ResolveHome, FinishLeg: the charge concerned
	Verdict     Verdict    // FinishLeg, Acknowledge: home's decision. ID and so on are those of the operation
	// Charge, FinishLeg, Acknowledge: the leg. ResolveHome: the slot that asks; home for the whole
	Leg    slot.ID
	Excess *Excess // Settle: the charges on the legs for the excess; nil if there are none
}

// Addressee returns the slot that a message of the operation is for.
func (o *Operation) Addressee(op Op) slot.ID {
	if op == Charge || op == FinishLeg {
		return o.Leg
	}
	return o.Home
}

// mostLegs returns the length of the longest list of legs.
func (o *Operation) mostLegs() int {
	most := max(len(o.Legs), len(o.Verdict.Legs))
	if o.Excess != nil {
		most = max(most, len(o.Excess.Legs))
	}
	return most
}

// CountsOnce reports whether a request is a message of an operation on several shards that takes effect once by the
// operation's records, however often it is sent. The only other message of one is an extension without an id.
func (r *Request) CountsOnce() bool {
	s := r.Settlement
	//mutant:operation-extended-by-a-copy
	return r.Operation != nil && (r.ID != "" || r.Op != Settle || s == nil || s.Action != ActionExtend)
}

// operate answers a message of an operation on several shards. Each message is complete and may be repeated freely:
// records of its own, or its number in a session, ensure that it takes effect once.
func (e *evaluation) operate(r *Request) Result {
	if id := r.Operation.ID; e.at.Shard == System || id == "" || len(id) > operationIDMax {
		return Result{Err: Invalidf("operation", "has no id, or one of more than %d bytes, or came to the system shard",
			operationIDMax)}
	}
	if err := r.problem(); err != nil {
		return Result{Err: err}
	}
	//mutant:message-for-a-former-owner
	if err := e.slotElsewhere(r.Operation.Addressee(r.Op)); err != nil {
		return Result{Err: err}
	}
	part := partEvaluation{e, r}
	switch r.Op {
	case AskHome:
		return part.atHome().askHome()
	case Charge:
		return part.onLeg(r.Operation.Leg).chargeLeg()
	case Conclude:
		return part.atHome().concludeHome()
	case ResolveHome:
		return part.atHome().resolveHome()
	case FinishLeg:
		return part.onLeg(r.Operation.Leg).finishLeg()
	case Acknowledge:
		return part.atHome().acknowledge()
	case Settle:
		if err := settlementProblem(r); err != nil {
			return Result{Err: err}
		}
		return part.atHome().settleOnce()
	}
	return Result{Err: errorf(NotBuilt, "",
		"operation %d is no part of one on several shards, or not known to this version", r.Op)}
}

var errOperationEnded = &Error{Code: TooLate, Message: "the operation has ended: this message of it came too late"}

// ConcludeWithin bounds the NotAfter of a Conclude: this long after the earliest of its charges, each by its own
// shard's time. An aborted ruling is remembered for longer than any Conclude of the operation is accepted.
const ConcludeWithin = limit.Span(60e6)

// Leg is the part of an operation in one other slot, with the answer of its shard.
type Leg struct {
	Slot     slot.ID
	Allowed  bool
	Decision Decision
}

// Join adds a leg's part to the decision of home, which determines whether the whole was allowed. It leaves the
// statuses to the caller.
func (d *Decision) Join(l *Leg) {
	d.ShadowDenied = d.Allowed && (d.ShadowDenied || l.Decision.ShadowDenied)
	if !d.Allowed && !l.Allowed {
		d.RetryAfter = limit.Longer(d.RetryAfter, l.Decision.RetryAfter)
	}
}

// Excess is an operation of its own, with an id drawn by the coordinator and the same home. It has charged the legs of
// another operation the units that a settlement spent above those taken. Home decides it together with that settlement.
type Excess struct {
	ID   string
	Legs []Leg // the answers of the shards that have an excess
}

// Verdict is home's decision on an operation.
type Verdict struct {
	ID      string
	Home    slot.ID
	Known   bool // home knows the operation
	State   OperationState
	Expires limit.Span  // OperationHeld: the remaining life of the hold, from now
	Settled *Settlement // OperationSettled: the settlement
	Legs    []Leg       // the answers of the other shards, as in the Conclude
}

// OperationState is the progress of an operation. Its numbers are stored in records: append new ones, never renumber.
type OperationState uint8

// The states.
const (
	OperationAborted   OperationState = 1 // denied, or given up: nothing of it counts
	OperationCommitted OperationState = 2
	OperationHeld      OperationState = 3 // committed, and a hold until it is settled or expires
	OperationSettled   OperationState = 4 // its hold was settled or has expired, or its decision was refunded
)
