package routing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// mover moves slots of an archipelago from shard to shard, one step after the other. It goes by what the shards say,
// and remembers only what a table would have: which move is under way. So it may be taken off after any step, and
// another one goes on.
type mover struct {
	*archipelago
	moves, givenUp int
}

const moversOfAWorld = 8

// newestTable returns the table as the last move has left it.
func (w *archipelago) newestTable() *slot.Map {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table
}

// anyKey returns a key of some operation.
func (w *archipelago) anyKey() string {
	n := w.draw(1 << 20)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[n%len(w.keys)]
}

// anyTable returns the newest table or the oldest.
func (w *archipelago) anyTable() *slot.Map {
	if w.draw(2) == 0 {
		return islets
	}
	return w.newestTable()
}

// run moves slots that have keys until stop is closed. Each mover has slots of its own: no slot has two moves at a
// time.
func (m *mover) run(stop <-chan struct{}, number, movers int) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+m.draw(300)) * time.Millisecond):
		}
		at := slot.Of("n", m.anyKey())
		if int(at)%movers == number {
			from := shard.ID(m.newestTable()[at])
			m.move(shard.Move{Slot: at, From: from, To: (from + 1 + shard.ID(m.draw(2))) % 3})
		}
	}
}

// move carries out a move, or gives it up, and then has the table say so.
func (m *mover) move(move shard.Move) {
	patience := 1 << 30
	if m.draw(4) == 0 {
		patience = m.draw(9)
	}
	for {
		node := m.node(1 + m.draw(12)) // it dies between any two messages
		if !m.troubled() {
			node = m.node(1 << 30)
		}
		d := &moveDriver{mover: m, node: node, patience: &patience}
		done := d.drive(&move)
		node.Close()
		if done {
			break
		}
	}
}

// moveDriver is one node that drives a move.
type moveDriver struct {
	*mover
	node     *mortal
	patience *int // steps until the move is given up
}

// ask asks a shard for a step, and returns nil if it has not been done.
func (d *moveDriver) ask(at shard.ID, t shard.MoveTerms) *shard.MoveAnswer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r := d.node.Decide(ctx, []shard.Request{shard.MoveRequest(at, t)})[0]
	if r.Err != nil || r.Decision.Answer().Moved.Waits != "" {
		time.Sleep(20 * time.Millisecond)
		return nil
	}
	return r.Decision.Answer().Moved
}

// drive does the steps with conditions that hold. It returns false if it could not go on.
func (d *moveDriver) drive(m *shard.Move) (done bool) {
	for !d.node.dead() {
		from := d.ask(m.From, shard.MoveTerms{Move: *m, Step: shard.MoveLook})
		to := d.ask(m.To, shard.MoveTerms{Move: *m, Step: shard.MoveLook})
		if from == nil || to == nil {
			return false
		}
		if m.Generation == 0 {
			m.Generation = from.Status.Generation + 1
		}
		if *d.patience--; *d.patience < 0 && d.abort(m, &from.Status, &to.Status) {
			return true
		}
		if d.step(m, &from.Status, &to.Status) {
			return true
		}
	}
	return false
}

// step does the next step, and reports whether the slot has moved and the table says so.
func (d *moveDriver) step(m *shard.Move, from, to *shard.SlotStatus) (done bool) {
	t := shard.MoveTerms{Move: *m}
	switch owned := to.State == shard.SlotOwned && to.Generation == m.Generation; {
	case owned && from.State == shard.SlotFrozen:
		d.setTable(m.Slot, m.To)
		t.Step = shard.MoveDrop
		d.ask(m.From, t)
	case owned:
		d.mu.Lock()
		d.moves++
		d.mu.Unlock()
		return true
	case from.State == shard.SlotPreparing && to.State == shard.SlotImporting && to.Generation == m.Generation:
		t.Step = shard.MoveFreeze
		d.ask(m.From, t)
	case from.State == shard.SlotPreparing:
		t.Step, t.Frozen = shard.MoveBegin, *from
		d.ask(m.To, t)
	case from.State == shard.SlotFrozen:
		d.copyOver(t, from, to)
	default:
		t.Step = shard.MovePrepare
		d.ask(m.From, t)
	}
	return false
}

// copyOver copies the next page, or has the slot taken after the last one.
func (d *moveDriver) copyOver(t shard.MoveTerms, from, to *shard.SlotStatus) {
	if to.Ended {
		t.Step, t.Frozen = shard.MoveTake, *from
		d.ask(t.To, t)
		return
	}
	t.Step, t.Place = shard.MoveRead, to.Place
	page := d.ask(t.From, t)
	if page == nil {
		return
	}
	t.Step, t.Frozen, t.Page, t.Put = shard.MovePut, *from, to.Pages, page.Page
	d.ask(t.To, t)
}

// abort gives the move up as long as To does not own the slot, and reports whether From has it again.
func (d *moveDriver) abort(m *shard.Move, from, to *shard.SlotStatus) (done bool) {
	aborted := to.State == shard.SlotAborted && to.Generation == m.Generation
	switch {
	case from.State == shard.SlotOwned && from.Generation == m.Generation+1:
		d.mu.Lock()
		d.givenUp++
		d.mu.Unlock()
		return true
	case to.State == shard.SlotOwned:
		*d.patience = 1 << 30
	case aborted && to.Ended:
		d.ask(m.From, shard.MoveTerms{Move: *m, Step: shard.MoveThaw})
	case aborted || to.State == shard.SlotImporting:
		d.ask(m.To, shard.MoveTerms{Move: *m, Step: shard.MoveAbort})
	}
	return false
}

func (d *moveDriver) setTable(at slot.ID, to shard.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	table := *d.table
	table[at] = uint32(to)
	d.table = &table
}

// Whatever fails or vanishes while slots move, an operation is counted everywhere or nowhere, once, as answered to its
// caller, and nothing is admitted above a quota. Drivers of moves may die after any message; moves are given up.
func TestAnOperationIsAllOrNothingWhileSlotsMove(t *testing.T) {
	first, worlds := firstSeed(t), worldsToPlay()
	var all tally
	moves, givenUp := 0, 0
	for i := range worlds {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := newArchipelago(t, seed)
			w.moving = true
			m := &mover{archipelago: w}
			for i := range moversOfAWorld {
				w.drivers.Go(func() { m.run(w.ashore, i, moversOfAWorld) })
			}
			w.sail(40)
			moves, givenUp = moves+m.moves, givenUp+m.givenUp
			all.allowed += w.heard.allowed
			all.denied += w.heard.denied
			all.definite += w.heard.definite
			all.unknown += w.heard.unknown
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("allowed, denied, refused, unknown: %v; %d moves, %d given up", all, moves, givenUp)
	if worlds >= enoughWorlds && (moves < worlds*5 || givenUp < worlds/2) {
		t.Errorf("%d moves and %d given up in %d worlds are too few", moves, givenUp, worlds)
	}
}
