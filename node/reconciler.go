package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// reconcileEvery is how often the reconciler looks unprompted.
const reconcileEvery = 250 * time.Millisecond

// openPatience is how long a leader may be without an epoch: more than two election timeouts.
const openPatience = 1500 * time.Millisecond

// reconciler keeps this node in line with the table. It creates, opens, closes and destroys replicas, has the judge
// look at them, has the groups that this node leads aligned and handed over to the wanted nodes, and, where the system
// shard is owned, has the table planned. It is level-triggered: whatever it could not do, it finds undone the next
// time. One goroutine runs it; what its tasks call says so.
type reconciler struct {
	node       string // id of this node
	now        func() time.Time
	dir        *dataDir
	view       *clusterView
	duplicates *duplicateGuard
	documents  *documents
	replicas   *replicaSet
	opener     *opener
	judge      *judge
	handover   *handover
	aligner    *aligner
	planner    *planner
	mover      *mover
	debts      *debts
	budget     *recordBudget
	canary     *canary
	sample     func(time.Time) // ends a period of what is kept of the node's traffic
	tasks      *tasks
	tokens     *tokens

	firstTable func(context.Context) // a task: writes the first table, where that is this node's part
	firstToken func(context.Context) // a task: makes the first token, if the configuration has one
	stopping   func() bool           // whether this node stops
	fail       func(error)
	logger     *slog.Logger
	changed    notifier

	current  atomic.Uint64 // version of the table as read after this process started, by a task; 0: not read
	throttle loglimit.Limit
}

// run reconciles until ctx ends.
func (c *reconciler) run(ctx context.Context) {
	tick := time.Tick(reconcileEvery)
	duties := time.Tick(dischargeEvery)
	for {
		if system := c.replicas.of(shard.System); system != nil {
			at, owned := c.now(), system.group.Leading() && system.actor.Open()
			if c.documents.learnFrom(system.group) && owned {
				c.tokens.hear(at)
			}
		}
		c.tokens.look()
		if err := c.tokens.keepUses(usesKeptEvery); err != nil {
			c.fail(err)
		}
		c.tasks.start("first table", c.firstTable)
		c.reconcile(ctx)
		for _, r := range c.replicas.all() {
			gone, err := c.judge.look(ctx, r)
			c.noteActed(r.Replica, err)
			if !gone {
				c.lookAfter(ctx, r)
			}
		}
		c.plan()
		c.budget.look()
		c.canary.look()
		c.sample(c.now())
		if !c.rest(ctx, tick, duties) {
			return
		}
	}
}

// rest waits until the reconciler should look again, and meanwhile discharges duties; false: ctx has ended.
func (c *reconciler) rest(ctx context.Context, tick, duties <-chan time.Time) bool {
	for {
		select {
		case <-duties:
			for _, r := range c.replicas.all() {
				c.debts.discharge(r)
			}
		case <-c.changed:
			return true
		case <-tick:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// reconcile brings this node's disk in line with the table.
func (c *reconciler) reconcile(ctx context.Context) {
	known := c.view.newestTable()
	if !c.duplicates.sole() || !c.view.hasTable() {
		return
	}
	for _, action := range placement.Reconcile(known, c.node, c.replicas.held(c.dir.stores)) {
		which := raftfsm.Replica{Shard: action.Shard, Number: action.Number}
		c.noteActed(which, c.act(ctx, action, which))
	}
}

// noteActed notes the outcome of bringing a replica in line with the table.
func (c *reconciler) noteActed(which raftfsm.Replica, err error) {
	switch name := which.Name(c.node); {
	case err == nil:
	case errors.Is(err, ErrDisk):
		c.noteLost(which, err)
	case mayComplain(&c.throttle, name, c.now()):
		c.logger.Warn("a replica is not as the table wants it; trying again", "replica", name, "error", err)
	}
}

// act takes one step, or starts the task that takes it. An error that is ErrDisk makes the replica a lost one
// (noteActed).
func (c *reconciler) act(ctx context.Context, action placement.Action, which raftfsm.Replica) error {
	r := c.replicas.of(which.Shard)
	runs := r != nil && r.Replica == which
	switch action.Kind {
	case placement.Create:
		// A node that lost its disk may hear a table from before its replica was created, and would create it again.
		//mutant:old-table-makes-replicas
		if known := c.view.table.now(); c.current.Load() == 0 || known.version < c.current.Load() {
			c.tasks.start("current table", c.readCurrent)
			return nil
		}
		if err := raftfsm.CreateGroup(c.dir.stores, which, action.Voters); err != nil {
			return diskError(err)
		}
		c.changed.notify()
	case placement.MarkCreated, placement.MarkLost:
		c.tasks.start("table", c.recordHeld)
	case placement.Open:
		if r == nil {
			return c.opener.open(which, action.Lone)
		}
	case placement.Reopen:
		if runs {
			c.logger.Info("reopening a replica: its group grows or shrinks", "replica", which.Name(c.node))
			return c.opener.reopen(ctx, r, action.Lone)
		}
	case placement.Close:
		if runs {
			c.opener.close(ctx, r)
			c.changed.notify()
		}
	case placement.Destroy:
		c.logger.Info("destroying a replica that the table no longer lists", "replica", which.Name(c.node))
		return diskError(raftfsm.DestroyGroup(c.dir.stores, which))
	}
	return nil
}

// readCurrent is a task: it asks the system shard for its table and notes the version. A table at least that new is
// from after this process started.
func (c *reconciler) readCurrent(ctx context.Context) {
	newest, err := c.view.table.fetch(ctx)
	if err == nil {
		c.current.Store(newest.version)
	}
	c.tasks.note("reading the table", err)
}

// recordHeld is a task: it records in the table which replicas this node has created, and which it has lost.
func (c *reconciler) recordHeld(ctx context.Context) {
	elsewhere := false
	err := c.view.changeTable(ctx, func(t *placement.Table) *placement.Table {
		changed := t
		if elsewhere = !c.duplicates.records(t); elsewhere {
			return nil
		}
		for _, action := range placement.Reconcile(t, c.node, c.replicas.held(c.dir.stores)) {
			var next *placement.Table
			switch action.Kind {
			case placement.MarkCreated:
				next = changed.ApplyCreated(action.Shard, c.node, action.Number)
			case placement.MarkLost:
				c.logger.Error("this node has lost a replica: it will be rebuilt under another number",
					"shard", action.Shard, "number", action.Number)
				if next = changed.ApplyLost(action.Shard, c.node, action.Number); next != nil {
					next = c.judge.drainIfAgain(next, raftfsm.Replica{Shard: action.Shard, Number: action.Number})
				}
			}
			if next != nil {
				changed = next
			}
		}
		if changed == t {
			return nil
		}
		return changed
	})
	if elsewhere && err == nil {
		return // the owner of the system shard has to list this process first: that is seen with a later tick
	}
	c.tasks.note("recording this node's replicas in the table", err)
}

// noteLost notes a replica that must not be opened (again): the table is to replace it. The only voter of a group
// cannot be replaced: its loss stops the node.
func (c *reconciler) noteLost(which raftfsm.Replica, err error) {
	if t := c.view.newestTable(); !c.view.hasTable() || len(t.Group(which.Shard).Voters()) < 2 {
		c.dir.stores.Distrust(err) //mutant:lost-end-leaves-no-word
		c.fail(err)
		return
	}
	c.logger.Error("a replica cannot be opened", "replica", which.Name(c.node), "error", err)
	c.replicas.noteLost(which)
	c.changed.notify()
}

// lookAfter reopens a stuck replica, and does a leader's work for the group.
func (c *reconciler) lookAfter(ctx context.Context, r *replica) {
	now := c.now()
	switch {
	case r.stuck.Load():
		c.noteActed(r.Replica, c.opener.reopen(ctx, r, r.lone))
		return
	case !r.group.Leading() || r.actor.Open():
		r.leadingSince = time.Time{}
	case r.leadingSince.IsZero():
		r.leadingSince = now
	case now.Sub(r.leadingSince) > openPatience && !r.lone && c.view.revision() != nil: // R2c
		r.leadingSince = time.Time{}
		c.tasks.start("hand over "+r.Shard.String(), func(context.Context) {
			c.logger.Warn("leading without an epoch: handing over",
				"shard", r.Shard, "error", c.handover.transfer(r, ""))
		})
	}
	if !r.actor.Open() || c.stopping() {
		r.ownsSince = now
		return
	}
	c.tasks.start("align "+r.Shard.String(), func(ctx context.Context) { c.aligner.align(ctx, r) })
	c.handover.leadWhereWanted(r)
	c.mover.look(r)
}

// plan has the table planned, if the system shard is owned here.
func (c *reconciler) plan() {
	r := c.replicas.of(shard.System)
	if r == nil || !r.actor.Open() || c.stopping() || !c.view.hasTable() {
		return
	}
	c.tasks.start("plan", c.planner.plan)
	c.tasks.start("first token", c.firstToken)
}
