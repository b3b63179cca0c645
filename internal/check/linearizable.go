package check

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-io/stint/limit"
)

// Observed is an operation on one key with one Lifetime limit, as its client saw it: nothing of it comes from the shard's
// own books. An operation that was asked again with its id is one, from the first call to the last answer.
type Observed struct {
	Client   int
	Called   int64 // any clock that all clients share
	Returned int64
	Cost     uint64 // 0: the state was read
	Unknown  bool   // it was never learned whether this was counted: it may still come, Returned means nothing
	Allowed  bool
	Used     uint64
	At       limit.Time // of the decision: it must not fall either

	// Claim names what was taken, if somebody may settle it: a hold, or a decision. No two are named alike, and none 0.
	Claim uint32
	// Settles: it settled the Claim, and in the end Cost was spent. Allowed: it did so, and Used was left. Else it was
	// told that the claim has ended before.
	Settles bool
}

// counted is the state of the sequential counter that the clients must be able to believe in.
type counted struct {
	used   uint64
	at     limit.Time
	claims string // that are open: name and cost of each, in their order
}

const claimBytes = 12

func (c *counted) find(name uint32) (at int, cost uint64) {
	for at := 0; at < len(c.claims); at += claimBytes {
		if claim := []byte(c.claims[at:]); binary.BigEndian.Uint32(claim) == name {
			return at, binary.BigEndian.Uint64(claim[4:])
		}
	}
	return -1, 0
}

// open puts a claim where its name belongs, so that equal states are equal.
func (c *counted) open(name uint32, cost uint64) {
	claim := string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, name), cost))
	at := 0
	for at < len(c.claims) && c.claims[at:at+claimBytes] < claim {
		at += claimBytes
	}
	c.claims = c.claims[:at] + claim + c.claims[at:]
}

// Linearizable says whether the operations on one key can be put into an order, each between its call and its return,
// in which one counter that decides one at a time gives the same answers. It searches for as long as patience lasts.
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

// step lists the states after an operation; none says that it cannot have happened here.
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

// settled lists the states after a settlement: a claim ends once.
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
