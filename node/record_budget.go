package node

import (
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// recordBudget bounds the records of all replicas of this node together: half of the memory that the process may use,
// which leaves room for the garbage collector and for snapshots under way. Each owner asks it before a batch. A new
// record is on every node with a copy of its shard, so the fullest of those decides. What the others use is known from
// their reports, a second old at most while they answer: the last eighth of the memory, which is kept for records to
// grow, has room for what is admitted meanwhile.
//
// The system shard counts, but asks for no room: it has a few documents of bounded size, and a cluster that is full
// must still be told to grow, or to take other policies.
type recordBudget struct {
	most     int // bytes
	view     *clusterView
	replicas *replicaSet
	peers    *peers
}

// count notes the slots of the replica's shard, once for each table, not for each batch.
func (b *recordBudget) count(r *replica) {
	if slots := b.view.slots(); slots != r.slots {
		r.slots, r.owned = slots, b.view.room(r.Shard).Slots
	}
}

// noTable owns no slot for any data shard.
var noTable = func() *slot.Map {
	m := new(slot.Map)
	for i := range m {
		m[i] = uint32(shard.System)
	}
	return m
}()

// slots is the actor.Config.Slots of a replica. nil would mean all slots, so without a table it is noTable.
func (b *recordBudget) slots(r *replica) *slot.Map {
	switch b.count(r); {
	case r.slots == nil:
		return noTable
	case r.owned == slot.Count:
		return nil
	}
	return r.slots
}

// room is the actor.Config.Room of a replica.
func (b *recordBudget) room(r *replica) shard.Room {
	b.count(r)
	room := shard.Room{Slots: r.owned}
	own := shard.UseOf(b.replicas.recordBytes(), b.most) //mutant:other-shards-escape-the-budget
	room.Used = max(own, shard.Use(r.elsewhere.Load()))  //mutant:full-copy-elsewhere-unseen
	return room
}

// look notes for each replica how full the other nodes with a copy are.
func (b *recordBudget) look() {
	if !b.peers.hasJoined() {
		return
	}
	reports := b.peers.answering()
	for _, r := range b.replicas.all() {
		most := shard.Roomy
		if g := b.view.newestTable().Group(r.Shard); g != nil {
			for _, copied := range g.Replicas {
				if m := reports[copied.Node].Machine; m != nil && m.RecordLimit > 0 {
					most = max(most, shard.UseOf(int(m.RecordBytes), int(m.RecordLimit)))
				}
			}
		}
		r.elsewhere.Store(uint32(most))
	}
}
