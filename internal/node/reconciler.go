package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// reconcileEvery is how often the reconciler looks unprompted.
const reconcileEvery = 250 * time.Millisecond

// reconcileForever keeps this node in line with the table. It creates, opens, closes and destroys replicas, aligns the groups that it
// leads, hands leadership over to the wanted nodes, and, where the system shard is owned, plans the table. It is
// level-triggered: whatever it could not do, it finds undone the next time.
func (n *Node) reconcileForever(ctx context.Context) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	duties := time.NewTicker(dischargeEvery)
	defer duties.Stop()
	for {
		n.readSystem()
		n.tasks.start("first table", n.writeFirstTable)
		n.reconcile(ctx)
		for _, r := range n.replicas() {
			if !n.judge(ctx, r) {
				n.lookAfter(ctx, r)
			}
		}
		n.plan()
		if !n.rest(ctx, tick.C, duties.C) {
			return
		}
	}
}

// rest waits until the reconciler should look again, and meanwhile discharges duties; false: ctx has ended.
func (n *Node) rest(ctx context.Context, tick, duties <-chan time.Time) bool {
	for {
		select {
		case <-duties:
			for _, r := range n.replicas() {
				n.discharge(r)
			}
		case <-n.kicked:
			return true
		case <-tick:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// kick makes the reconciler look at once. It never blocks.
func (n *Node) kick() {
	select {
	case n.kicked <- struct{}{}:
	default:
	}
}

// reconcile brings this node's disk in line with the table.
func (n *Node) reconcile(ctx context.Context) {
	known := n.known.newest()
	if known.Table == nil {
		return
	}
	for _, action := range placement.Reconcile(known.Table, n.id, n.held()) {
		which := raftfsm.Replica{Shard: action.Shard, Number: action.Number}
		n.noteActed(which, n.act(ctx, action, which))
	}
}

// noteActed notes the outcome of bringing a replica in line with the table.
func (n *Node) noteActed(which raftfsm.Replica, err error) {
	switch name := n.name(which); {
	case err == nil:
	case errors.Is(err, ErrDisk):
		n.noteLost(which, err)
	case n.throttle.due(name, n.config.World.Now()):
		n.config.Logger.Warn("a replica is not as the table wants it; trying again", "replica", name, "error", err)
	}
}

func (n *Node) act(ctx context.Context, action placement.Action, which raftfsm.Replica) error {
	r := n.replica(which.Shard)
	runs := r != nil && r.Replica == which
	switch action.Kind {
	case placement.Create:
		// A node that lost its disk may hear a table from before its replica was created, and would create it again.
		if known := n.known.newest(); n.current.Load() == 0 || known.version < n.current.Load() {
			n.tasks.start("current table", n.readCurrent)
			return nil
		}
		if err := raftfsm.CreateGroup(n.stores, which, action.Voters); err != nil {
			return diskError(err)
		}
		n.kick()
	case placement.MarkCreated, placement.MarkLost:
		n.tasks.start("table", n.recordHeld)
	case placement.Open:
		if r == nil {
			return n.open(which, action.Lone)
		}
	case placement.Reopen:
		if runs {
			n.config.Logger.Info("reopening a replica: its group grows or shrinks", "replica", n.name(which))
			return n.reopen(ctx, r, action.Lone)
		}
	case placement.Close:
		if runs {
			n.closeReplica(ctx, r)
			n.kick()
		}
	case placement.Destroy:
		n.config.Logger.Info("destroying a replica that the table no longer lists", "replica", n.name(which))
		return diskError(raftfsm.DestroyGroup(n.stores, which))
	}
	return nil
}

// readCurrent asks the system shard for its table and notes the version. A table at least that new is from after this process
// started.
func (n *Node) readCurrent(ctx context.Context) {
	d, err := n.fetch(ctx, placement.TableDocument)
	if err == nil {
		n.learnTable(d)
		n.current.Store(d.Version)
	}
	n.noteTask("reading the table", err)
}

// recordHeld records in the table which replicas this node has created, and which it has lost.
func (n *Node) recordHeld(ctx context.Context) {
	err := n.changeTable(ctx, func(t *placement.Table) *placement.Table {
		changed := t
		for _, action := range placement.Reconcile(t, n.id, n.held()) {
			var next *placement.Table
			switch action.Kind {
			case placement.MarkCreated:
				next = changed.ApplyCreated(action.Shard, n.id, action.Number)
			case placement.MarkLost:
				n.config.Logger.Error("this node has lost a replica: it will be rebuilt under another number",
					"shard", action.Shard, "number", action.Number)
				if next = changed.ApplyLost(action.Shard, n.id, action.Number); next != nil {
					next = n.drainIfAgain(next, raftfsm.Replica{Shard: action.Shard, Number: action.Number})
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
	n.noteTask("recording this node's replicas in the table", err)
}

// noteTask makes the reconciler look at the outcome of a task. A failed task is tried again with the next tick, not at once: it
// may fail as quickly again.
func (n *Node) noteTask(what string, err error) {
	switch {
	case err == nil:
		n.kick()
	case n.ctx.Err() == nil && n.throttle.due(what, n.config.World.Now()):
		n.config.Logger.Info(what+" did not work; trying again", "error", err)
	}
}

// held lists the replicas on this node's disk.
func (n *Node) held() []placement.Held {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var held []placement.Held
	low := n.stores.LowDisk()
	for _, which := range n.stores.Groups() {
		c, convicted := n.convicted[which]
		h := placement.Held{Shard: which.Shard, Number: which.Number, Broken: n.lost[which] || convicted,
			Kept: convicted && n.isEvidence(which, c, low)}
		if r := n.running[which.Shard]; r != nil && r.Replica == which {
			h.Open, h.Lone, h.Leading = true, r.lone, r.group.Leading()
		}
		held = append(held, h)
	}
	return held
}

// noteLost notes a replica that must not be opened (again): the table is to replace it. The only voter of a group cannot be
// replaced: its loss stops the node.
func (n *Node) noteLost(which raftfsm.Replica, err error) {
	if t := n.known.newest(); t.Table == nil || len(t.Group(which.Shard).Voters()) < 2 {
		n.fail(err)
		return
	}
	n.config.Logger.Error("a replica cannot be opened", "replica", n.name(which), "error", err)
	n.mu.Lock()
	n.lost[which] = true
	n.mu.Unlock()
	n.kick()
}

// lookAfter reopens a stuck replica, and does a leader's work for the group.
func (n *Node) lookAfter(ctx context.Context, r *replica) {
	now := n.config.World.Now()
	switch {
	case r.stuck.Load():
		n.noteActed(r.Replica, n.reopen(ctx, r, r.lone))
		return
	case !r.group.Leading() || r.actor.Open():
		r.leadingSince = time.Time{}
	case r.leadingSince.IsZero():
		r.leadingSince = now
	case now.Sub(r.leadingSince) > openPatience && !r.lone && n.known.revision() != nil: // R2c
		r.leadingSince = time.Time{}
		n.tasks.start("hand over "+r.Shard.String(), func(context.Context) {
			n.config.Logger.Warn("leading without an epoch: handing over", "shard", r.Shard, "error", n.transfer(r, ""))
		})
	}
	if !r.actor.Open() || n.stopping.Load() {
		r.ownsSince = now
		return
	}
	n.tasks.start("align "+r.Shard.String(), func(ctx context.Context) { n.align(ctx, r) })
	n.leadWhereWanted(r)
}

// openPatience is how long a leader may be without an epoch: more than two election timeouts.
const openPatience = 1500 * time.Millisecond

// align takes the next steps that bring the group's members in line with the table, or the table in line with them.
func (n *Node) align(ctx context.Context, r *replica) {
	if !n.readForEpoch(ctx, r) {
		return
	}
	known := n.known.newest()
	g := known.Group(r.Shard)
	if g == nil || r.lone != (len(g.Replicas) == 1) { // the replica must be reopened first
		return
	}
	members, index, settled := r.group.Settled()
	if !settled { // a record of it might be lost with this leader
		return
	}
	described := make([]placement.GroupMember, len(members))
	for i, m := range members {
		described[i] = placement.GroupMember{Name: m.Name, Voter: m.Voter}
	}
	caughtUp := func(name string) bool { return n.caughtUp(r, name) }
	for _, change := range placement.Align(known.Table, r.Shard, n.name(r.Replica), described, caughtUp) {
		if change.Kind == placement.Unknown {
			continue
		}
		if err := n.change(ctx, r, change, index); err != nil {
			n.noteTask("shard "+r.Shard.String()+": "+change.String(), err)
			return
		}
		n.config.Logger.Info("moved", "shard", r.Shard, "step", change.String())
		n.kick()
	}
}

// readForEpoch makes sure that the table is not older than this node's leadership of the group. By an older table it might
// repeat a step that its predecessor took and another node undid. Only the task that aligns the group calls it.
func (n *Node) readForEpoch(ctx context.Context, r *replica) bool {
	epoch := r.actor.Epoch()
	if epoch == 0 || n.known.newest().Table == nil {
		return false
	}
	if r.alignedEpoch == epoch {
		return true
	}
	if n.readTable(ctx) != nil {
		return false
	}
	r.alignedEpoch = epoch
	return r.actor.Epoch() == epoch
}

func (n *Node) change(ctx context.Context, r *replica, change placement.Change, index uint64) error {
	switch change.Kind {
	case placement.AddLearner:
		return r.group.AddLearner(change.Name, index)
	case placement.Promote:
		return r.group.Promote(change.Name, index)
	case placement.Remove, placement.Stray:
		return r.group.Remove(change.Name, index)
	case placement.TransferAway:
		return n.handOver(ctx, r, change.Name)
	case placement.RecordVoter:
		return n.changeTable(ctx, func(t *placement.Table) *placement.Table {
			return t.ApplyVoter(r.Shard, change.Node, change.Number)
		})
	case placement.RecordGone:
		return n.changeTable(ctx, func(t *placement.Table) *placement.Table {
			return t.ApplyGone(r.Shard, change.Node, change.Number)
		})
	}
	return nil
}

// caughtUpEntries is how far behind a learner may be to become a voter: as far as a follower is behind now and then.
const caughtUpEntries = 128

// caughtUp reports whether a member of a group that this node leads has nearly all of its log, by the member's own report.
func (n *Node) caughtUp(r *replica, name string) bool {
	if name == n.name(r.Replica) {
		return true
	}
	told := n.told(r.Shard, name)
	return told != nil && told.Applied+caughtUpEntries >= r.group.Status().CommitIndex
}

// told is the last report of a group's member, by its name; nil if its node does not answer, or does not have it.
func (n *Node) told(id shard.ID, name string) *placement.ReplicaReport {
	report, ok := n.probe.Reports()[nodeOf(name)]
	if !ok {
		return nil
	}
	i := slices.IndexFunc(report.Replicas, func(r placement.ReplicaReport) bool {
		return r.Shard == id && n.nameOn(report.Node, r) == name
	})
	if i < 0 {
		return nil
	}
	return &report.Replicas[i]
}

func (n *Node) nameOn(node string, r placement.ReplicaReport) string {
	return raftfsm.Replica{Shard: r.Shard, Number: r.Number}.Name(node)
}

// plan changes the table to what it should be, if the system shard is owned here.
func (n *Node) plan() {
	r := n.replica(shard.System)
	if r == nil || !r.actor.Open() || n.stopping.Load() || n.known.newest().Table == nil {
		return
	}
	n.tasks.start("plan", func(ctx context.Context) {
		seen := placement.Observed{Members: n.gossip.Members(), Silent: n.probe.Silent(), Reports: n.reports(),
			Grace: n.config.ReplaceAfter}
		steps, err := n.planLevels(ctx, seen)
		n.notePlanned("planning the feature level", steps, err)
		steps = nil
		err = n.changeTable(ctx, func(t *placement.Table) (next *placement.Table) {
			if next = t.ApplySecret(newSecret()); next != nil {
				steps = []string{"an older version founded the cluster: it gets the secret that ids of holds are sealed with"}
				return next
			}
			next, steps = placement.Plan(t, seen)
			return next
		})
		n.notePlanned("planning", steps, err)
	})
}

func (n *Node) notePlanned(what string, steps []string, err error) {
	if err != nil {
		n.noteTask(what, err)
		return
	}
	for _, step := range steps {
		n.config.Logger.Info("planned", "step", step)
	}
}
