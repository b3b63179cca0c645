package shard

import "github.com/stint-io/stint/limit"

// Operation is one request on several shards (SEMANTICS X4), as its coordinator, the node that was asked, tells the
// shards about it.
type Operation struct {
	ID          string     // the client's idempotency id, or one that the coordinator has drawn
	Op          Op         // Charge, Conclude: what the whole is: Check, Count, Partial or Reserve
	Drawn       bool       // the coordinator has drawn it: no client will ask with it again
	Home        ID         // the shard that decides
	Fingerprint uint64     // of the whole request
	TTL         limit.Span // Charge: after this long without a word from home the leg asks
	Legs        []Leg      // Conclude: what the other shards said. ResolveHome, FinishLeg: which charge it is about
	Verdict     Verdict    // FinishLeg, Acknowledge: what home has decided. ID and so on are those of the operation
	Leg         ID         // Acknowledge: which shard has finished. ResolveHome: which one asks; home for the whole
}

// OfOperation reports whether this is a message of an operation on several shards.
func (o Op) OfOperation() bool { return o >= AskHome && o <= Acknowledge }

// ConcludeWithin bounds the NotAfter of a Conclude: so long after the earliest of its charges, each by its shard's time.
// A ruling that an operation is aborted is remembered for longer than any Conclude of it is taken.
const ConcludeWithin = limit.Span(60e6)

// OperationFingerprint tells whether two requests under one id are the same request.
func OperationFingerprint(whole *Request) uint64 { return fingerprint(whole) }

// Leg is the part of an operation on one other shard, as that shard answered.
type Leg struct {
	Shard    ID
	Allowed  bool
	Decision Decision
}

// Verdict is what home says of an operation.
type Verdict struct {
	ID      string
	Home    ID
	Known   bool // home knows of it
	State   OperationState
	Expires limit.Span  // OperationHeld: how long from now the hold lives
	Settled *Settlement // OperationSettled: how
	Legs    []Leg       // the answers of the other shards, as Conclude brought them
}

// OperationState is how far an operation is. The numbers stand in records: append, never renumber.
type OperationState uint8

// The states.
const (
	OperationAborted   OperationState = 1
	OperationCommitted OperationState = 2
	OperationHeld      OperationState = 3 // committed, and a hold until it is settled or expires
	OperationSettled   OperationState = 4
)
