package node

import (
	"testing"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// movedPair is the status of a slot on both shards of a move of generation 4.
type movedPair struct {
	from, to shard.SlotStatus
	back     bool
}

const movedGeneration = 4

func (p movedPair) move() placement.Move {
	return placement.Move{Move: shard.Move{Slot: 7, From: 0, To: 1, Generation: movedGeneration}, Back: p.back}
}

// owners counts the shards that answer for the slot.
func (p movedPair) owners() (count int) {
	for _, s := range []shard.SlotStatus{p.from, p.to} {
		if s.State == shard.SlotOwned || s.State == shard.SlotPreparing {
			count++
		}
	}
	return count
}

// after carries out a step as the shards do, or reports that its condition does not hold.
func (p movedPair) after(step shard.MoveStep) (next movedPair, holds bool) {
	const g = movedGeneration
	is := func(s shard.SlotStatus, state shard.SlotState) bool { return s.State == state && s.Generation == g }
	fresh := p.to.Generation < g
	switch step {
	case shard.MovePrepare:
		holds = p.from.State == shard.SlotOwned && p.from.Generation == g-1
		p.from = shard.SlotStatus{State: shard.SlotPreparing, Generation: g}
	case shard.MoveBegin:
		holds = fresh
		p.to = shard.SlotStatus{State: shard.SlotImporting, Generation: g}
	case shard.MoveFreeze:
		holds = is(p.from, shard.SlotPreparing)
		p.from.State = shard.SlotFrozen
	case shard.MoveRead: // and MovePut of what was read: the second page is the last one
		holds = is(p.from, shard.SlotFrozen) && !p.from.Ended && is(p.to, shard.SlotImporting) && !p.to.Ended
		p.to.Pages, p.to.Ended = p.to.Pages+1, p.to.Pages == 1
	case shard.MoveTake:
		holds = is(p.to, shard.SlotImporting) && p.to.Ended
		p.to = shard.SlotStatus{State: shard.SlotOwned, Generation: g}
	case shard.MoveDrop:
		holds = is(p.from, shard.SlotFrozen)
		if p.from.Ended {
			p.from = shard.SlotStatus{State: shard.SlotMoved, Generation: g}
		} else {
			p.from.Ended = true
		}
	case shard.MoveAbort:
		holds = fresh || is(p.to, shard.SlotImporting) || is(p.to, shard.SlotAborted) && !p.to.Ended
		p.to = shard.SlotStatus{State: shard.SlotAborted, Generation: g, Ended: is(p.to, shard.SlotAborted)}
	case shard.MoveThaw:
		holds = (is(p.from, shard.SlotPreparing) || is(p.from, shard.SlotFrozen)) && !p.from.Ended
		p.from = shard.SlotStatus{State: shard.SlotOwned, Generation: g + 1}
	}
	return p, holds
}

// TestAMoveEndsFromWhateverItsShardsAreIn: whichever nodes took the steps before, and at whatever instant the move is
// taken back, the next step is one that its shard takes, and the last one leaves the slot with one owner, which the
// table names. While one shard does not answer, no step is taken.
func TestAMoveEndsFromWhateverItsShardsAreIn(t *testing.T) {
	seen, taken := map[movedStates]bool{}, map[shard.MoveStep]bool{}
	var follow func(p movedPair)
	follow = func(p movedPair) {
		if seen[p.states()] {
			return
		}
		seen[p.states()] = true
		if p.owners() > 1 {
			t.Fatalf("two owners: %+v", p)
		}
		if !p.back {
			back := p
			back.back = true
			follow(back)
		}
		checkDeaf(t, p)
		next := nextStep(p.move(), &p.from, &p.to)
		switch {
		case next.over:
			if p.owners() != 1 || (next.owner == 1) != (p.to.State == shard.SlotOwned) {
				t.Errorf("%+v: the move ends with %+v", p, next)
			}
			return
		case next.step == 0:
			t.Errorf("%+v: nothing is done: %+v", p, next)
			return
		}
		taken[next.step] = true
		after, holds := p.after(next.step)
		if at := map[bool]shard.ID{true: 0, false: 1}[isOfFrom(next.step)]; !holds || next.at != at {
			t.Errorf("%+v: step %d on shard %v", p, next.step, next.at)
			return
		}
		follow(after)
	}
	for _, to := range []shard.SlotStatus{{}, {State: shard.SlotMoved, Generation: 2},
		{State: shard.SlotAborted, Generation: 2, Ended: true}} {
		follow(movedPair{from: shard.SlotStatus{State: shard.SlotOwned, Generation: movedGeneration - 1}, to: to})
	}
	if len(taken) != 8 {
		t.Errorf("the steps %v were taken", taken)
	}
}

// movedStates is a movedPair without what cannot be compared.
type movedStates struct {
	from, to           shard.SlotState
	fromEnded, toEnded bool
	generations        [2]uint64
	pages              uint64
	back               bool
}

func (p movedPair) states() movedStates {
	return movedStates{p.from.State, p.to.State, p.from.Ended, p.to.Ended,
		[2]uint64{p.from.Generation, p.to.Generation}, p.to.Pages, p.back}
}

func isOfFrom(step shard.MoveStep) bool {
	return step == shard.MovePrepare || step == shard.MoveFreeze || step == shard.MoveRead || step == shard.MoveDrop ||
		step == shard.MoveThaw
}

// checkDeaf requires that nothing but a record of where the slot is is done while a shard does not answer.
func checkDeaf(t *testing.T, p movedPair) {
	t.Helper()
	if next := nextStep(p.move(), &p.from, nil); next.step != 0 || next.told || next.waits == "" {
		t.Errorf("%+v, and To does not answer: %+v", p, next)
	}
	next := nextStep(p.move(), nil, &p.to)
	took := p.to.State == shard.SlotOwned
	if next.step != 0 || next.over || next.told != took || next.waits == "" {
		t.Errorf("%+v, and From does not answer: %+v", p, next)
	}
}

// TestWhatASlotNeedsBeforeAStep: in any pair of states, even in one that cannot be.
func TestWhatASlotNeedsBeforeAStep(t *testing.T) {
	var all []shard.SlotStatus
	for state := shard.SlotUnknown; state <= shard.SlotAborted; state++ {
		for g := uint64(movedGeneration - 1); g <= movedGeneration+2; g++ {
			all = append(all, shard.SlotStatus{State: state, Generation: g},
				shard.SlotStatus{State: state, Generation: g, Ended: true})
		}
	}
	now := func(s shard.SlotStatus, state shard.SlotState) bool {
		return s.State == state && s.Generation == movedGeneration
	}
	for _, from := range all {
		for _, to := range all {
			for _, back := range []bool{false, true} {
				p := movedPair{from: from, to: to, back: back}
				next := nextStep(p.move(), &from, &to)
				fits := true
				switch next.step {
				case shard.MovePrepare:
					fits = from.Generation < movedGeneration
				case shard.MoveFreeze:
					fits = now(from, shard.SlotPreparing) && now(to, shard.SlotImporting)
				case shard.MoveRead:
					fits = now(from, shard.SlotFrozen) && now(to, shard.SlotImporting) && !to.Ended
				case shard.MoveTake:
					fits = now(from, shard.SlotFrozen) && now(to, shard.SlotImporting) && to.Ended && !back
				case shard.MoveDrop:
					fits = now(to, shard.SlotOwned)
				case shard.MoveThaw:
					fits = now(to, shard.SlotAborted) && to.Ended
				case shard.MoveAbort:
					fits = to.State != shard.SlotOwned || to.Generation < movedGeneration
				}
				if !fits || next.told && next.owner == 1 && !now(to, shard.SlotOwned) {
					t.Errorf("%+v: %+v", p, next)
				}
			}
		}
	}
}

// TestAMoveThatIsOverIsNotBegunAgain: by a node with an old table.
func TestAMoveThatIsOverIsNotBegunAgain(t *testing.T) {
	m := movedPair{}.move()
	for _, c := range []struct{ from, to shard.SlotStatus }{
		{shard.SlotStatus{State: shard.SlotOwned, Generation: 6},
			shard.SlotStatus{State: shard.SlotAborted, Generation: 4, Ended: true}},
		{shard.SlotStatus{State: shard.SlotOwned, Generation: 6},
			shard.SlotStatus{State: shard.SlotMoved, Generation: 6}},
		{shard.SlotStatus{State: shard.SlotMoved, Generation: 4},
			shard.SlotStatus{State: shard.SlotPreparing, Generation: 5}},
	} {
		if next := nextStep(m, &c.from, &c.to); next != (moverStep{}) {
			t.Errorf("%+v, %+v: %+v", c.from, c.to, next)
		}
	}
	m.Back, m.Generation = true, 0
	if next := nextStep(m, nil, nil); !next.over || next.owner != m.From {
		t.Errorf("taken back before it has begun: %+v", next)
	}
}
