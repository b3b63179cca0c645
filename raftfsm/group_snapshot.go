package raftfsm

import (
	"reflect"

	"github.com/hashicorp/raft"
)

// snapshotWhenDue writes a snapshot when one is due (snapshotDue). It fails only while raft shuts down, or by setting
// the latch. One group of the node writes at a time: shards with similar use come due together, and the others are
// asked again soon.
func (g *Group) snapshotWhenDue() {
	if !g.snapshotDue() || !g.stores.snapshotting.TryLock() {
		return
	}
	defer g.stores.snapshotting.Unlock()
	untilClosed(g.raft.Snapshot(), g.closed).Error()
}

// untilClosed makes a future end when its group is closed. When the latch ends the goroutine that writes a snapshot,
// raft never answers that snapshot's future, and it offers no other way to set the shutdown channel that its other
// futures have. A goroutine that waited for the answer instead of the caller would never end.
func untilClosed(future raft.SnapshotFuture, closed chan struct{}) raft.SnapshotFuture {
	reflect.ValueOf(future).Elem().FieldByName("ShutdownCh").Set(reflect.ValueOf(closed))
	return future
}

func (g *Group) snapshotDue() bool {
	if every := g.cfg.SnapshotEvery; every > 0 {
		return g.fsm.entries.Load() >= every
	}
	return g.fsm.snapshotDue()
}

// Snapshot writes a snapshot now and shortens the log. If the shard never saw an entry, the error has
// raft.ErrNothingNewToSnapshot in its chain.
func (g *Group) Snapshot() error {
	return during(g.name+": snapshot", untilClosed(g.raft.Snapshot(), g.closed).Error())
}
