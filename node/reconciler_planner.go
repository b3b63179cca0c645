package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// planner changes the table and the feature levels to what they should be. A task of the reconciler calls plan on the
// node that owns the system shard. At most one plan is under way at a time.
type planner struct {
	now          func() time.Time
	view         *clusterView
	documents    *documents
	peers        *peers
	reporter     *reporter
	tasks        *tasks
	logger       *slog.Logger
	replaceAfter time.Duration // how long a node may be silent before its replicas are rebuilt elsewhere

	leftSince map[string]time.Time // since when a leaving node was seen without replicas; owned by the plan under way
}

// lingerMost is how long a node that has given its last replica away may stay to let its clients go: as long as a stop
// may take. It is bounded so that a node that does not want to go is removed too.
const lingerMost = 10 * time.Second

// lingering names the nodes that are about to stop because they have left by a table: those that still answer. It must
// be the table that is planned: a node that an older one still gives replicas would have no time to let its clients go.
func (p *planner) lingering(t *placement.Table, seen *placement.Observed) map[string]bool {
	now := p.now()
	since, lingers := make(map[string]time.Time), make(map[string]bool)
	for _, n := range t.Listed() { //mutant:lingering-by-an-older-table
		if _, answers := seen.Reports[n.ID]; t.Left(n.ID) {
			began, known := p.leftSince[n.ID]
			if !known {
				began = now
			}
			since[n.ID] = began
			lingers[n.ID] = answers && seen.Silent[n.ID] == 0 && now.Sub(began) < lingerMost
		}
	}
	p.leftSince = since
	return lingers
}

// plan plans the levels, then the table.
func (p *planner) plan(ctx context.Context) {
	seen := placement.Observed{Members: p.peers.gossip.Members(), Silent: p.peers.silent(),
		Reports: p.reporter.reports(), Grace: p.replaceAfter}
	steps, err := p.planLevels(ctx, seen)
	p.note("planning the feature level", steps, err)
	steps = nil
	if err := p.planSecrets(ctx, seen); err != nil {
		p.note("planning the secrets", nil, err)
		return
	}
	p.planLedger(ctx)
	err = p.view.changeTable(ctx, func(t *placement.Table) (next *placement.Table) {
		seen.Lingers = p.lingering(t, &seen)
		next, steps = placement.Plan(t, seen)
		return next
	})
	p.note("planning", steps, err)
}

// planLedger draws the id of the cluster's bills as soon as a policy has a meter, so that every backup with a bill has
// it too.
func (p *planner) planLedger(ctx context.Context) {
	if r := p.view.revision(); r == nil || !r.Set.HasMeters() {
		return
	}
	_, err := p.documents.ledger(ctx)
	p.note("planning the ledger", nil, err)
}

// planSecrets draws the secret that keys are hashed with as soon as policies need one, and takes rotations their next
// step.
func (p *planner) planSecrets(ctx context.Context, seen placement.Observed) error {
	if p.view.secrets.now().version == 0 {
		if _, err := p.view.secrets.fetch(ctx); err != nil {
			return err
		}
	}
	if r := p.view.revision(); r != nil {
		drawn, err := p.view.drawKeySecret(ctx, r.Set)
		if err != nil {
			return err
		}
		if drawn {
			p.note("", []string{"the policies hash keys: the cluster gets the secret for that"}, nil)
		}
	}
	var steps []string
	err := p.view.changeSecrets(ctx, nil, func(now known[knownSecrets]) (next *placement.Secrets, _ error) {
		next, steps = placement.PlanSecrets(p.view.newestTable(), now.value.Secrets, now.version, seen.Reports, p.now())
		return next, nil
	})
	p.note("planning the secrets", steps, err)
	return nil
}

// planLevels changes the levels to what they should be. The table is fenced before a rise ends: a planner with an older
// table, unaware of the rise, can then no longer replace it.
func (p *planner) planLevels(ctx context.Context, seen placement.Observed) (steps []string, err error) {
	written := p.view.newestLevels().Written()
	if written > shard.LevelFirst {
		err = p.view.changeTable(ctx, func(t *placement.Table) *placement.Table { return t.ApplyLevel(written) })
		if err != nil {
			return nil, err
		}
	}
	err = p.view.levels.change(ctx, nil, func(now known[placement.Levels]) (next *placement.Levels, _ error) {
		next, steps = placement.PlanLevels(p.view.newestTable(), now.value, seen, p.now(), p.view.release)
		return next, nil
	})
	return steps, err
}

// note logs what a plan has changed, and asks the other nodes, so that they learn that there is news.
func (p *planner) note(what string, steps []string, err error) {
	if err != nil {
		p.tasks.note(what, err)
		return
	}
	if len(steps) > 0 {
		p.peers.ask()
	}
	for _, step := range steps {
		p.logger.Info("planned", "step", step)
	}
}
