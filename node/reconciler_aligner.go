package node

import (
	"context"
	"log/slog"

	"github.com/stint-io/stint/cluster/placement"
)

// aligner brings the members of the groups that this node leads in line with the table, and the table in line with
// them. Tasks of the reconciler call it: at most one for each group at a time.
type aligner struct {
	view     *clusterView
	peers    *peers
	handover *handover
	tasks    *tasks
	logger   *slog.Logger
	changed  notifier
}

// align takes the next steps that bring the group's members in line with the table, or the table in line with them.
func (a *aligner) align(ctx context.Context, r *replica) {
	if !a.readForEpoch(ctx, r) {
		return
	}
	known := a.view.newestTable()
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
	caughtUp := func(name string) bool { return a.peers.isCaughtUp(r, name) }
	for _, change := range placement.Align(known, r.Shard, r.name(), described, caughtUp) {
		if change.Kind == placement.Unknown {
			continue
		}
		if err := a.change(ctx, r, change, index); err != nil {
			a.tasks.note("shard "+r.Shard.String()+": "+change.String(), err)
			return
		}
		a.logger.Info("moved", "shard", r.Shard, "step", change.String())
		a.changed.notify()
	}
}

// readForEpoch makes sure that the table is not older than this node's leadership of the group. By an older table it
// might repeat a step that its predecessor took and another node undid.
func (a *aligner) readForEpoch(ctx context.Context, r *replica) bool {
	epoch := r.actor.Epoch()
	if epoch == 0 || !a.view.hasTable() {
		return false
	}
	if r.alignedEpoch == epoch { //mutant:old-table-aligns-groups
		return true
	}
	if _, err := a.view.table.fetch(ctx); err != nil {
		return false
	}
	r.alignedEpoch = epoch
	return r.actor.Epoch() == epoch
}

func (a *aligner) change(ctx context.Context, r *replica, change placement.Change, index uint64) error {
	switch change.Kind {
	case placement.AddLearner:
		return r.group.AddLearner(change.Name, index)
	case placement.Promote:
		return r.group.Promote(change.Name, index)
	case placement.Remove, placement.Stray:
		return r.group.Remove(change.Name, index)
	case placement.TransferAway:
		return a.handover.perform(ctx, r, change.Name)
	case placement.RecordVoter:
		return a.view.changeTable(ctx, func(t *placement.Table) *placement.Table {
			return t.ApplyVoter(r.Shard, change.Node, change.Number)
		})
	case placement.RecordGone:
		return a.view.changeTable(ctx, func(t *placement.Table) *placement.Table {
			return t.ApplyGone(r.Shard, change.Node, change.Number)
		})
	}
	return nil
}
