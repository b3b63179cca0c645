package check

import (
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
}

// counted is the state of the sequential counter that the clients must be able to believe in.
type counted struct {
	used uint64
	at   limit.Time
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
	fits := o.Cost == 0 || c.used+o.Cost <= quota
	after := c
	if fits {
		after.used += o.Cost
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
