package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// moveWithin bounds one step of a move.
	moveWithin = 3 * time.Second
	// frozenAgain is the pause before a move that waits while no shard answers for the slot is looked at again, and
	// moveAgain that of another one.
	frozenAgain = 20 * time.Millisecond
	moveAgain   = 500 * time.Millisecond
	// takenAhead is how far the time of the slot may jump ahead when its new shard takes it (G4), in microseconds.
	takenAhead = 400_000
)

// mover carries out the moves of slots that the table lists, on the node that owns the slot's new shard. It is
// level-triggered: all that it needs to know is in the logs of the two shards, so any node may end where another began.
// The reconciler calls look; all methods may be called concurrently.
type mover struct {
	view     *clusterView
	submit   func(context.Context, shard.ID, []shard.Request) []shard.Result
	tellAll  func() // has the other nodes ask for the table
	moved    func() // counts a move that this node has ended
	tasks    *tasks
	stopping func() bool // whether this node stops
	logger   *slog.Logger

	mu    sync.Mutex
	waits map[slot.ID]string // guarded by mu: what the moves of this node wait for
}

// look starts a task for each move to a shard that this node owns.
func (v *mover) look(r *replica) {
	owns := func() bool { return r.actor.Open() && !v.stopping() }
	for _, m := range v.view.newestTable().Moves {
		if m.To != r.Shard || !owns() {
			continue
		}
		what := fmt.Sprintf("moving slot %d", m.Slot)
		v.tasks.start(what, func(ctx context.Context) {
			v.drive(ctx, what, m.Slot, owns)
			v.tasks.note(what, nil)
		})
	}
}

// drive takes one step after the other until the move is over, or this node is no longer the one to drive it.
func (v *mover) drive(ctx context.Context, what string, at slot.ID, owns func() bool) {
	defer v.wait(at, "")
	for ctx.Err() == nil && owns() {
		m, listed := v.listed(at)
		if !listed {
			return
		}
		d := &moveDrive{mover: v, Move: m}
		waits, err := d.run(ctx)
		if err != nil {
			waits = err.Error()
			v.tasks.note(what, err)
		}
		v.wait(at, waits)
		switch {
		case waits == "":
		case d.from != nil && d.from.State == shard.SlotFrozen:
			waitOut(ctx, frozenAgain)
		default:
			waitOut(ctx, moveAgain)
		}
	}
}

// listed returns the move of a slot.
func (v *mover) listed(at slot.ID) (m placement.Move, listed bool) {
	for _, m := range v.view.newestTable().Moves {
		if m.Slot == at {
			return m, true
		}
	}
	return m, false
}

func (v *mover) wait(at slot.ID, what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if what == "" {
		delete(v.waits, at)
	} else {
		v.waits[at] = what
	}
}

// reports lists what the moves of this node wait for.
func (v *mover) reports() (all []placement.MoveReport) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for at, what := range v.waits {
		all = append(all, placement.MoveReport{Slot: at, Waits: what})
	}
	slices.SortFunc(all, func(a, b placement.MoveReport) int { return cmp.Compare(a.Slot, b.Slot) })
	return all
}
