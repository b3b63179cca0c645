package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// planner changes the table and the feature levels to what they should be. A task of the reconciler calls plan on the node that
// owns the system shard. It holds no state.
type planner struct {
	now          func() time.Time
	view         *clusterView
	documents    *documents
	peers        *peers
	reporter     *reporter
	tasks        *tasks
	logger       *slog.Logger
	replaceAfter time.Duration // how long a node may be silent before its replicas are rebuilt elsewhere
}

// plan plans the levels, then the table.
func (p *planner) plan(ctx context.Context) {
	seen := placement.Observed{Members: p.peers.gossip.Members(), Silent: p.peers.silent(), Reports: p.reporter.reports(),
		Grace: p.replaceAfter}
	steps, err := p.planLevels(ctx, seen)
	p.note("planning the feature level", steps, err)
	steps = nil
	err = p.documents.changeTable(ctx, func(t *placement.Table) (next *placement.Table) {
		if next = t.ApplySecret(newSecret()); next != nil {
			steps = []string{"an older version founded the cluster: it gets the secret that ids of holds are sealed with"}
			return next
		}
		next, steps = placement.Plan(t, seen)
		return next
	})
	p.note("planning", steps, err)
}

// planLevels changes the levels to what they should be. The table is fenced before a rise ends: a planner with an older
// table, unaware of the rise, can then no longer replace it.
func (p *planner) planLevels(ctx context.Context, seen placement.Observed) (steps []string, err error) {
	written := p.view.newestLevels().Written()
	if written > shard.LevelFirst {
		err = p.documents.changeTable(ctx, func(t *placement.Table) *placement.Table { return t.ApplyLevel(written) })
		if err != nil {
			return nil, err
		}
	}
	err = p.documents.changeLevels(ctx, func(l *placement.Levels) (next *placement.Levels, _ error) {
		next, steps = placement.PlanLevels(p.view.newestTable().Table, l, seen, p.now(), p.view.release)
		return next, nil
	})
	return steps, err
}

func (p *planner) note(what string, steps []string, err error) {
	if err != nil {
		p.tasks.note(what, err)
		return
	}
	for _, step := range steps {
		p.logger.Info("planned", "step", step)
	}
}
