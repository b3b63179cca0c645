package node

import (
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// moverStep is what is to be done next for a move: a step on one of its two shards, a record in the table, or nothing
// yet. The zero value means that the table is out of date: the move is over.
type moverStep struct {
	at   shard.ID
	step shard.MoveStep // on shard at; 0: none

	told  bool     // record in the table that the slot is on owner
	over  bool     // and that the move is over
	owner shard.ID // of the slot, with told

	waits string // why there is nothing else to be done; "" if there is
}

// nextStep decides from the status of the slot on both shards; nil for a shard that does not answer. At most one step
// has its condition fulfilled in any pair of states, so it does not matter which nodes took the steps before.
func nextStep(m placement.Move, from, to *shard.SlotStatus) moverStep {
	g := m.Generation
	switch {
	case m.Back && g == 0: // no shard has begun
		return moverStep{told: true, over: true, owner: m.From}
	case to == nil:
		return moverStep{waits: "shard " + m.To.String() + " does not answer"}
	case to.State == shard.SlotOwned && to.Generation == g:
		return afterTake(m, from)
	case to.Generation > g || from != nil && from.Generation > g+1:
		return moverStep{}
	case from == nil:
		return moverStep{waits: "shard " + m.From.String() + " does not answer"}
	case to.State == shard.SlotAborted && to.Generation == g && to.Ended: //mutant:thaw-before-abort
		return afterAbort(m, from)
	case to.State == shard.SlotAborted && to.Generation == g, m.Back:
		return moverStep{at: m.To, step: shard.MoveAbort}
	}
	return untilTake(m, from, to)
}

// untilTake is the way of a slot to To.
func untilTake(m placement.Move, from, to *shard.SlotStatus) moverStep {
	g := m.Generation
	importing := to.State == shard.SlotImporting && to.Generation == g
	switch {
	case hadBefore(from, g):
		return moverStep{at: m.From, step: shard.MovePrepare}
	case from.Generation != g || from.State != shard.SlotPreparing && from.State != shard.SlotFrozen:
		return unfitStates(from, to)
	case !importing:
		return moverStep{at: m.To, step: shard.MoveBegin}
	case from.State == shard.SlotPreparing:
		return moverStep{at: m.From, step: shard.MoveFreeze}
	case to.Ended:
		return moverStep{at: m.To, step: shard.MoveTake}
	}
	return moverStep{at: m.From, step: shard.MoveRead}
}

// afterTake lets From forget the slot. If it does not answer, at least the table says where the slot is.
func afterTake(m placement.Move, from *shard.SlotStatus) moverStep {
	switch {
	case from == nil:
		return moverStep{told: true, owner: m.To, waits: "shard " + m.From.String() + " does not answer"}
	case from.State == shard.SlotFrozen && from.Generation == m.Generation:
		return moverStep{at: m.From, step: shard.MoveDrop}
	case from.State == shard.SlotMoved && from.Generation == m.Generation:
		return moverStep{told: true, over: true, owner: m.To}
	case from.Generation > m.Generation:
		return moverStep{}
	}
	return unfitStates(from, &shard.SlotStatus{State: shard.SlotOwned, Generation: m.Generation})
}

// afterAbort gives the slot back to From, in a new generation even if From has not begun yet: a node that still
// believes in the move can then not begin it.
func afterAbort(m placement.Move, from *shard.SlotStatus) moverStep {
	g := m.Generation
	switch {
	case from.State == shard.SlotOwned && from.Generation == g+1:
		return moverStep{told: true, over: true, owner: m.From}
	case hadBefore(from, g):
		return moverStep{at: m.From, step: shard.MovePrepare}
	case from.Generation == g && (from.State == shard.SlotPreparing || from.State == shard.SlotFrozen):
		return moverStep{at: m.From, step: shard.MoveThaw}
	}
	return unfitStates(from, &shard.SlotStatus{State: shard.SlotAborted, Generation: g})
}

// hadBefore reports whether a shard owns the slot in a generation before the move's.
func hadBefore(s *shard.SlotStatus, generation uint64) bool {
	return s.Generation < generation && (s.State == shard.SlotUnknown || s.State == shard.SlotOwned)
}

func unfitStates(from, to *shard.SlotStatus) moverStep {
	return moverStep{waits: fmt.Sprintf("its states do not fit together: %s in generation %d, and %s in generation %d",
		from.State, from.Generation, to.State, to.Generation)}
}
