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
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// moveWithin bounds one step of a move.
	moveWithin = 3 * time.Second
	// frozenAgain is the pause before a move that waits while no shard answers for the slot is looked at again,
	// asideAgain that of one that waits while From does (MoveReport.Aside), and moveAgain that of any other.
	frozenAgain = 20 * time.Millisecond
	asideAgain  = 2 * time.Second
	moveAgain   = 500 * time.Millisecond
	// awayMost is how long no shard answers for a slot while its move waits and could be given up: then From gets the
	// slot back. A new owner's time is behind that of another shard by less than half of it (G4). The slot is tried
	// again after backAgain.
	awayMost  = time.Second
	backAgain = 30 * time.Second
	// takenAhead is how far the time of the slot may jump ahead when its new shard takes it (G4), in microseconds, and
	// apartMost how far the times of its shards may differ when it is frozen: the copy takes time, too.
	takenAhead = 400_000
	apartMost  = 300_000
)

// mover carries out the moves of slots that the table lists, on the node that owns the slot's new shard. It is
// level-triggered: all that it needs to know is in the logs of the two shards, so any node may end where another began.
// The reconciler calls look; all methods may be called concurrently.
type mover struct {
	view     *clusterView
	submit   func(context.Context, shard.ID, []shard.Request) []shard.Result
	tellAll  func()                                                    // has the other nodes ask for the table
	billing  func(context.Context) (*policy.Set, []notify.Sink, error) // sinkAdmin.billing
	moved    func()                                                    // counts a move that this node has ended
	tasks    *tasks
	stopping func() bool // whether this node stops
	logger   *slog.Logger
	pace     movePace

	mu    sync.Mutex
	waits map[slot.ID]placement.MoveReport // guarded by mu: the moves of this node that wait
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
	defer v.wait(placement.MoveReport{Slot: at})
	var since time.Time // since when the slot has been away and its move waits; zero: it does not
	back := ""          // why the slot is given back; "": it is not
	for ctx.Err() == nil && owns() {
		m, seen, listed := v.listed(at)
		if !listed {
			return
		}
		d := &moveDrive{mover: v, Move: m, seen: seen}
		d.Back = d.Back || back != ""
		waits, err := d.run(ctx)
		if err != nil {
			waits = err.Error()
			v.tasks.note(what, err)
		}
		switch {
		case waits == "" || !d.away():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > awayMost && back == "": //mutant:slot-is-away-as-long-as-it-waits
			back = waits
		}
		if back != "" && d.stays {
			v.rest(ctx, at, back)
			back = "" //mutant:slot-is-given-back-for-good
			continue
		}
		aside := waits != "" && d.from != nil && d.from.State == shard.SlotPreparing //mutant:held-slot-stops-the-others
		v.wait(placement.MoveReport{Slot: at, Waits: waits, Aside: aside})
		switch {
		case waits == "":
		case aside:
			sleep.For(ctx, asideAgain)
		case d.from != nil && d.from.State == shard.SlotFrozen:
			sleep.For(ctx, frozenAgain)
		default:
			sleep.For(ctx, moveAgain)
		}
	}
}

// rest lets a slot be that was given back. Whatever it waited for may last, and other slots go on meanwhile.
func (v *mover) rest(ctx context.Context, at slot.ID, waited string) {
	v.wait(placement.MoveReport{
		Slot:  at,
		Waits: "half a minute, since it was given back when it waited for this: " + waited,
		Aside: true,
	})
	sleep.For(ctx, backAgain) //mutant:slot-is-away-again-at-once
}

// listed returns the move of a slot, and the table that lists it.
func (v *mover) listed(at slot.ID) (m placement.Move, seen *placement.Table, listed bool) {
	seen = v.view.newestTable()
	for _, m := range seen.Moves {
		if m.Slot == at {
			return m, seen, true
		}
	}
	return m, seen, false
}

// wait notes what a move waits for; "": for nothing.
func (v *mover) wait(m placement.MoveReport) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.Waits == "" {
		delete(v.waits, m.Slot)
	} else {
		v.waits[m.Slot] = m
	}
}

// reports lists the moves of this node that wait.
func (v *mover) reports() (all []placement.MoveReport) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range v.waits {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b placement.MoveReport) int { return cmp.Compare(a.Slot, b.Slot) })
	return all
}
