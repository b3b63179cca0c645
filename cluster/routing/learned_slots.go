package routing

import (
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// learnedSlots lies over the table's map: the slots that shards have said to be elsewhere (shard.Moved). What is
// learned of a slot ends when the table's own entry for it changes. It is a hint, as the table is: a shard that does
// not own a slot says where it went. Any number of goroutines may use it.
type learnedSlots struct {
	now atomic.Pointer[slotsOver] // nil: nothing is learned
	mu  sync.Mutex                // held while now is replaced
}

// slotsOver is the map of a table, and slots, which is that map with what was learned. It is immutable. A table is told
// from the next one by the pointer, since its map is replaced and never changed.
type slotsOver struct {
	table, slots *slot.Map
	shards       uint32 // at least, since slots names them
}

// over returns the map to go by, and the number of shards.
func (l *learnedSlots) over(table *slot.Map, shards uint32) (*slot.Map, uint32) {
	o := l.now.Load()
	if o != nil && o.table != table {
		l.mu.Lock()
		o = l.keep(table, l.onto(table))
		l.mu.Unlock()
	}
	if o == nil {
		return table, shards
	}
	return o.slots, max(shards, o.shards)
}

// learn notes that a slot is on another shard than was thought. No node carries more shards than placement.MaxShards,
// whatever a peer says: a route is kept for each.
func (l *learnedSlots) learn(table *slot.Map, at slot.ID, to shard.ID) {
	if to >= placement.MaxShards { //mutant:any-shard-is-believed
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := l.onto(table)
	slots[at] = uint32(to)
	l.keep(table, slots)
}

// onto returns a table's map with what was learned and still counts. The caller holds mu.
func (l *learnedSlots) onto(table *slot.Map) *slot.Map {
	slots := *table
	if before := l.now.Load(); before != nil {
		for at := range slots {
			if before.table[at] == table[at] { //mutant:learned-slot-outlives-the-table
				slots[at] = before.slots[at]
			}
		}
	}
	return &slots
}

// keep makes slots the map to go by; nil: it is the table's. The caller holds mu.
func (l *learnedSlots) keep(table, slots *slot.Map) (o *slotsOver) {
	if *slots != *table {
		o = &slotsOver{table: table, slots: slots}
		for _, id := range slots {
			o.shards = max(o.shards, id+1)
		}
	}
	l.now.Store(o)
	return o
}
