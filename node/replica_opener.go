package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// opener opens and closes this node's replicas. Only the reconciler does so, as do the start before it and the stop
// after it: otherwise a replica could be opened while it still runs.
type opener struct {
	node     string // id of this node
	world    World
	dir      *dataDir
	view     *clusterView
	peers    *peers
	replicas *replicaSet
	observer *replicaObserver
	budget   *recordBudget

	top        *top.Budget          // of the keys that stand out
	acceptStep bool                 // lets shard time step
	ahead      func() time.Duration // how far a test has moved shard time
	logger     *slog.Logger
	changed    notifier
}

// open starts a replica that has its stores.
func (o *opener) open(which raftfsm.Replica, lone bool) error {
	r := &replica{Replica: which, node: o.node, lone: lone, logger: o.logger, changed: o.changed}
	stream := o.peers.port.Stream(which.Shard, r.name())
	var a atomic.Pointer[actor.Actor] // leadership may be won before there is an actor to tell
	group, err := raftfsm.OpenGroup(o.dir.stores, raftfsm.GroupConfig{
		Replica: which,
		Lone:    lone,
		Stream:  stream,

		SnapshotEvery: o.world.SnapshotEvery,
		OnLeadership: func() {
			if a := a.Load(); a != nil {
				a.Hint()
			}
			o.observer.leadership()
		},
		Observer: raftfsm.Observer{
			Appended: o.observer.appended,
			Applied:  func(outcome shard.Outcome) { o.observer.applied(which.Shard, outcome) },
			Diverged: func(err error) { r.diverge(err.Error()) },
		},
	})
	if err != nil {
		stream.Close() // the next attempt creates another one of that name
		return diskError(err)
	}
	r.group = group
	r.actor = actor.Start(which.Shard, group, o.actorConfig(r))
	a.Store(r.actor)
	o.replicas.add(r)
	r.actor.Hint()
	return nil
}

// reopen closes a replica and starts it again.
func (o *opener) reopen(ctx context.Context, r *replica, lone bool) error {
	o.close(ctx, r)
	return o.open(r.Replica, lone)
}

// close stops a replica; its pending requests get their fate.
func (o *opener) close(ctx context.Context, r *replica) {
	o.replicas.remove(r)
	r.actor.Close(ctx)
	r.group.Shutdown()
}

func (o *opener) actorConfig(r *replica) actor.Config {
	id := r.Shard
	config := actor.Config{
		Now:        o.world.Now,
		Ahead:      o.ahead,
		Suspended:  o.world.Slept,
		Policies:   o.view.revision,
		Level:      o.view.level,
		Stopped:    r.stopped.Load,
		IdleSum:    o.world.IdleSum,
		Observer:   o.observer.ofActor(id),
		AcceptStep: o.acceptStep,
	}
	if id == shard.System {
		config.Policies = nil
	} else {
		config.Top, config.Watched = o.top, o.observer.bus.WantsChanges
		config.Slots = func() *slot.Map { return o.budget.slots(r) }
		config.Room = func() shard.Room { return o.budget.room(r) }
	}
	if !r.lone {
		config.Reference = func() (time.Duration, bool) { return o.peers.offset(o.view.voterNodes(id)) }
	}
	return config
}
