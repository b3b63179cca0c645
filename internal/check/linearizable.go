package check

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-io/stint/limit"
)

// Observed is an operation on one key as its client saw it: nothing of it comes from the shard's own books. It judges a
// key with one limit that counts in windows: FixedWindow, or Lifetime.
type Observed struct {
	Client       int
	Called       int64 // any clock that all clients share
	Returned     int64
	Cost         uint64 // 0: the state was read
	Unknown      bool   // it was never learned whether this was counted: it may still come, Returned means nothing
	Allowed      bool
	Used         uint64
	At           limit.Time
	WindowLength limit.Span // 0: the limit never resets
}

// window is the state of the sequential counter that the clients must believe in.
type window struct {
	number int64
	used   uint64
	at     limit.Time
}

// Linearizable says whether the operations on one key can be put into an order, each between its call and its return,
// in which one counter that decides one at a time gives the same answers. It searches for as long as patience lasts.
func Linearizable(quota uint64, operations []Observed, patience time.Duration) error {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{window{}} },
		Step: func(state, input, _ any) []any { return step(state.(window), input.(Observed), quota) },
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
func step(w window, o Observed, quota uint64) []any {
	if o.Unknown {
		counted := w
		counted.used += o.Cost
		if counted.used > quota {
			return []any{w}
		}
		return []any{w, counted}
	}
	if o.At < w.at {
		return nil
	}
	w.at = o.At
	if o.WindowLength > 0 && int64(o.At)/int64(o.WindowLength) != w.number {
		w.number, w.used = int64(o.At)/int64(o.WindowLength), 0
	}
	fits := o.Cost == 0 || w.used+o.Cost <= quota
	if fits {
		w.used += o.Cost
	}
	if o.Allowed != fits || o.Used != w.used {
		return nil
	}
	return []any{w}
}
