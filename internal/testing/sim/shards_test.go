package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard/slot"
)

// changeShards is a fault that is not drawn with the others: in one of three worlds (-sim.moves: in all) the cluster is
// asked for other numbers of shards, in the middle of everything else. Its slots move until the last number is reached.
const changeShards = "shards"

// slotMoved is what a node says when a slot has moved, or stays where it was.
const slotMoved = "slot moved"

// mostShards is the largest number of shards that a cluster is asked for.
const mostShards = 5

// planShards adds them. It has a source of its own, so that the other faults of a seed stay what they were.
func (p *plan) planShards() {
	chance := rand.New(rand.NewPCG(p.seed, 2))
	if chance.IntN(3) != 0 && !*movesFlag {
		return
	}
	now := p.shards
	for at := 3 + 8*chance.Float64(); at < troubled.Seconds()-2; at += 10 + 30*chance.Float64() {
		by := 1 + chance.IntN(2) // hundreds of slots move, which is most of the work of such a world
		if now-by < 1 || now+by <= mostShards && chance.IntN(2) == 0 {
			now += by
		} else {
			now -= by
		}
		p.insert(fault{at: time.Duration(at * float64(time.Second)), kind: changeShards, whom: chance.IntN(8),
			shards: uint32(now)})
	}
}

// TestSlotsMoveInEachWorldThatAsksForIt: whatever its seed, and only then.
func TestSlotsMoveInEachWorldThatAsksForIt(t *testing.T) {
	defer func(was bool) { *movesFlag = was }(*movesFlag)
	for _, asked := range []bool{false, true} {
		*movesFlag = asked
		moving := 0
		for seed := range uint64(60) {
			if newPlan(seed).moves() {
				moving++
			}
		}
		if moving == 0 || (moving == 60) != asked {
			t.Errorf("asked for: %v; slots move in %d worlds of 60", asked, moving)
		}
	}
}

// moves reports whether slots move in the world.
func (p *plan) moves() bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool { return f.kind == changeShards })
}

// growth is what a world knows of its shards.
type growth struct {
	asking chan struct{} // held while the cluster is asked for a number of shards

	mu      sync.Mutex
	asked   uint32 // the last number; 0: none
	version uint64 // of a table that has that number; MaxUint64 while it is asked for
	rests   []rest
}

// rest is a time in which no slot moved. It ends before the cluster is asked for another number of shards.
type rest struct {
	from, to time.Duration // since the world began
	slots    *slot.Map
}

const endless = time.Duration(math.MaxInt64)

func newGrowth(p *plan) growth {
	return growth{asking: make(chan struct{}, 1), rests: []rest{{to: endless, slots: slot.Even(uint32(p.shards))}}}
}

// disturb ends a rest.
func (g *growth) disturb(now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version = math.MaxUint64
	if last := &g.rests[len(g.rests)-1]; last.to == endless {
		last.to = now
	}
}

// doShards asks the cluster for a number of shards until a node says that this is wanted now.
func (w *world) doShards(f fault) {
	g := &w.growth
	g.asking <- struct{}{}
	defer func() { <-g.asking }()
	g.disturb(time.Since(w.began))
	for n := range 120 {
		err := w.askForShards(w.victim(f.whom+n).life.Load(), f.shards)
		w.story.tell("world", "asked for %d shards: %v", f.shards, err)
		if err == nil {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.fail(fmt.Errorf("no node takes the number of shards: %d", f.shards))
}

func (w *world) askForShards(l *life, shards uint32) error {
	if l == nil || l.closing.Load() {
		return errors.New("it does not run")
	}
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	s, err := l.Admin().Status(ctx)
	if err != nil {
		return err
	}
	if err := l.Admin().SetShards(ctx, shards, &s.ShardsRevision); err != nil {
		return err
	}
	s, err = l.Admin().Status(ctx) // it knows its own change
	if err != nil || l.dead.Load() {
		return cmp.Or(err, errors.New("it was killed"))
	}
	w.growth.mu.Lock()
	defer w.growth.mu.Unlock()
	w.growth.asked, w.growth.version = shards, s.TableVersion
	return nil
}

// moving says what keeps the slots from being where the last number of shards that was asked for wants them.
func (w *world) moving(s *stintv1.StatusResponse) error {
	w.growth.mu.Lock()
	defer w.growth.mu.Unlock()
	switch asked := w.growth.asked; {
	case s.TableVersion < w.growth.version:
		return fmt.Errorf("table %d is older than %d", s.TableVersion, w.growth.version)
	case asked != 0 && s.WantedShards != asked:
		return fmt.Errorf("%d shards are wanted, %d were asked for", s.WantedShards, asked)
	case s.SlotsToMove > 0 || len(s.SlotMoves) > 0:
		return fmt.Errorf("slots are under way: %v", s.Moves)
	}
	return nil
}

// seeRest notes when the slots have come to rest, as every node that runs knows.
func (w *world) seeRest() {
	if !w.plan.moves() {
		return
	}
	var s *stintv1.StatusResponse
	for _, l := range w.lives() {
		var err error
		if s, err = l.Admin().Status(l.ctx); err != nil || w.moving(s) != nil {
			return
		}
	}
	g := &w.growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.GetTableVersion() > 0 && g.version <= s.TableVersion && g.rests[len(g.rests)-1].to != endless {
		g.rests = append(g.rests, rest{time.Since(w.began), endless, slotsOf(s)})
		w.tally.note("slots came to rest")
	}
}

// slotsOf returns the shard of each slot.
func slotsOf(s *stintv1.StatusResponse) *slot.Map {
	m := new(slot.Map)
	for _, one := range s.GetShards() {
		for _, r := range one.Slots {
			for at := r.First; at <= r.Last; at++ {
				m[at] = one.Id
			}
		}
	}
	return m
}

// slots returns the shard of each slot as a node knows it, and the number of shards.
func (l *life) slots(ctx context.Context) (m *slot.Map, shards uint32, err error) {
	s, err := l.Admin().Status(ctx)
	return slotsOf(s), uint32(len(s.GetShards())) - 1, err
}

// settleSlots waits until all slots are on the shards that were asked for. A reservation with keys of several slots
// keeps each on its shard for as long as it is open: so all of these end first.
func (w *world) settleSlots() {
	if !w.plan.moves() {
		return
	}
	for _, r := range w.runners {
		r.cancelAll()
	}
	// Shards that were opened by clocks that were wrong may be 1.2 s apart (doStep), and a slot is frozen at 300 ms at
	// most: by 500 ppm that takes 30 minutes.
	const within = 40 * time.Minute
	ended := time.Now()
	err := w.awaitStatus(ended.Add(within), func(s *stintv1.StatusResponse) error {
		return errors.Join(w.unsettled(s), w.moving(s))
	})
	if err != nil {
		w.fail(fmt.Errorf("%v after the last request the slots are not where they should be: %w", within, err))
		return
	}
	w.even = time.Since(ended)
}

// cancelAll cancels the reservations that are open.
func (r *runner) cancelAll() {
	for _, of := range slices.Clone(r.done) {
		if of.kind != "reserve" || !of.admitted() || of.endedBy != nil || of.lives() != longHold {
			continue
		}
		e := r.cancel(of)
		of.endedBy, e.called = e, time.Since(r.w.began)
		r.done = append(r.done, e)
		for i := 0; e.fate == unknown && i < 10; i++ {
			r.ask(e)
		}
		if e.fate != answered {
			r.w.fail(fmt.Errorf("a hold cannot be canceled in a whole world: %v", e))
		}
	}
}
