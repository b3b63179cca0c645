package shard

import (
	"fmt"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// besideMove is a move of a slot in the cluster of a beside. Between its steps there are requests, except while the
// slot is frozen.
type besideMove struct {
	*mover
	taken bool
}

// move begins a move in the cluster, goes on with it, or does nothing.
func (b *beside) move() {
	switch m := b.moving; {
	case b.rnd.IntN(3) > 0:
	case m == nil:
		b.beginMove()
	case m.taken:
		m.drop(b.now)
		b.moving = nil
		b.met["moved"]++
	default:
		b.endMove()
	}
}

func (b *beside) beginMove() {
	if b.rnd.IntN(8) == 0 || len(b.cluster.worlds) == 1 {
		b.grow()
	}
	at := slot.Of("default", fmt.Sprintf("{%d}", b.rnd.IntN(12)))
	to := ID(b.rnd.IntN(len(b.cluster.worlds)))
	if b.cluster.slots[at] == uint32(to) {
		return
	}
	m := b.cluster.mover(at, to)
	m.twice = func() bool { return b.rnd.IntN(4) == 0 }
	m.prepare(b.now)
	b.moving = &besideMove{mover: m}
}

// endMove has the other shard own the slot, or gives the move up.
func (b *beside) endMove() {
	m := b.moving
	if b.rnd.IntN(8) > 0 && !m.freeze(b.now) {
		b.Fatal("a slot waits for a hold, and no request had keys of several slots")
	}
	if m.status(b.now, m.From).State == SlotFrozen && b.rnd.IntN(3) > 0 {
		m.copy(b.now)
	}
	if m.status(b.now, m.To).Ended && b.rnd.IntN(4) > 0 {
		m.take(b.now)
		m.taken = true
		return
	}
	m.abort(b.now)
	b.moving = nil
	b.met["aborted"]++
}

// grow adds a shard without slots.
func (b *beside) grow() {
	f := b.cluster
	id := ID(len(f.worlds))
	w := &world{TB: b.TB, state: NewState(id), policies: f.worlds[0].policies, term: 1, table: f.worlds[0].table}
	w.append(EncodeEpochOpen(id, origin, LevelNewest))
	at := w.next(b.now)
	w.append(EncodeBatch(at, Adopt(w, nil, policy.Revision{Version: b.version, Set: w.policies}, at)))
	f.worlds = append(f.worlds, w)
	b.met["grown"]++
}
