package model

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-io/stint/limit"
)

// Observed is an operation on one key with one Lifetime limit, as its client saw it: none of it comes from the shard's
// own books. Retries with the same id are one operation, from the first call to the last answer.
type Observed struct {
	Client   int
	Called   int64 // any clock that all clients share
	Returned int64
	Cost     uint64 // 0 if the state was read
	Unknown  bool   // the outcome is unknown: it may still be counted, and Returned is ignored
	Allowed  bool
	Used     uint64     // of the quota, after the operation
	At       limit.Time // of the decision: it must not decrease either

	// Claim names a hold or a decision that can be settled. Names are unique, and not 0.
	Claim uint32
	// Settles means that the operation settled the Claim, and Cost was spent in the end. If Allowed, it took effect,
	// and Used was left. Otherwise the answer was that the claim had ended before.
	Settles bool
}

// counted is the state of a sequential counter that explains the observations.
type counted struct {
	used   uint64
	at     limit.Time
	claims string // open ones: name and cost of each, ordered by name
}

const claimBytes = 12

// find returns the place of a claim in c.claims, or -1, and its cost.
func (c *counted) find(name uint32) (at int, cost uint64) {
	for at := 0; at < len(c.claims); at += claimBytes {
		if claim := []byte(c.claims[at:]); binary.BigEndian.Uint32(claim) == name {
			return at, binary.BigEndian.Uint64(claim[4:])
		}
	}
	return -1, 0
}

// open inserts a claim in the order of names, so that equal states compare equal.
func (c *counted) open(name uint32, cost uint64) {
	claim := string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, name), cost))
	at := 0
	for at < len(c.claims) && c.claims[at:at+claimBytes] < claim {
		at += claimBytes
	}
	c.claims = c.claims[:at] + claim + c.claims[at:]
}

// Linearizable reports an error unless the operations on one key have an order, each between its call and its return,
// in which one counter that decides one operation at a time gives the same answers. It searches for at most patience.
func Linearizable(quota uint64, operations []Observed, patience time.Duration) error {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{counted{}} },
		Step: func(state, input, _ any) []any { return step(state.(counted), input.(Observed), quota) },
	}
	history := make([]porcupine.Operation, len(operations))
	end := int64(0)
	for _, o := range operations {
		end = max(end, o.Returned, o.Called)
	}
	for i, o := range operations {
		history[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Called, Return: o.Returned}
		if o.Unknown {
			history[i].Return = end + 1
		}
	}
	switch result := porcupine.CheckOperationsTimeout(model.ToModel(), history, patience); result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("%d operations are not linearizable", len(operations))
	default:
		return fmt.Errorf("%d operations: no verdict after %v", len(operations), patience)
	}
}

// step lists the states after an operation; an empty list means that it cannot have happened here.
func step(c counted, o Observed, quota uint64) []any {
	if o.Settles {
		return settled(c, o)
	}
	fits := o.Cost == 0 || c.used+o.Cost <= quota
	after := c
	if fits {
		after.used += o.Cost
		if o.Claim != 0 {
			after.open(o.Claim, o.Cost)
		}
	}
	if o.Unknown {
		return []any{c, after}
	}
	after.at = o.At
	if o.Allowed != fits || o.Used != after.used || o.At < c.at {
		return nil
	}
	return []any{after}
}

// settled lists the states after a settlement: a claim ends only once.
func settled(c counted, o Observed) []any {
	at, taken := c.find(o.Claim)
	if at < 0 {
		if o.Unknown || !o.Allowed {
			return []any{c}
		}
		return nil
	}
	after := c
	after.claims = c.claims[:at] + c.claims[at+claimBytes:]
	after.used = c.used - taken + o.Cost
	if o.Unknown {
		return []any{c, after}
	}
	after.at = o.At
	if !o.Allowed || o.Used != after.used || o.At < c.at {
		return nil
	}
	return []any{after}
}
