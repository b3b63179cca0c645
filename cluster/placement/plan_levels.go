package placement

import (
	"fmt"
	"slices"
	"time"
)

// PlanLevels returns the next levels and a description of each change, in one line of English each. It returns nil if
// there is nothing to do. The table must be the newest one; release is that of this node.
func PlanLevels(t *Table, l *Levels, seen Observed, now time.Time, release string) (next *Levels, steps []string) {
	p := levelPlanner{t: t, l: l.clone(), seen: seen, now: now}
	p.register()
	if p.l.Next == 0 {
		p.prepare(release)
	} else {
		p.rise(release)
	}
	if !p.changed {
		return nil, nil
	}
	return p.l, p.steps
}

// levelPlanner changes its levels step by step.
type levelPlanner struct {
	t       *Table
	l       *Levels // the next ones
	seen    Observed
	now     time.Time
	changed bool // l differs: it may without a step, when a node only reports another NodeLevels.Kept
	steps   []string
}

func (p *levelPlanner) step(format string, args ...any) {
	p.changed = true
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

// register records what the nodes reported.
func (p *levelPlanner) register() {
	nodes := p.l.Heard(p.t, p.seen.Reports)
	for _, now := range nodes {
		if known, listed := p.l.Node(now.ID); !listed || now.Min != known.Min || now.Max != known.Max {
			p.step("node %s knows the feature levels %d to %d", now.ID, now.Min, now.Max)
		}
	}
	p.changed = p.changed || !slices.Equal(nodes, p.l.Nodes)
	p.l.Nodes = nodes
}

// prepare begins a rise when all nodes have known the level for long enough, and all answer.
func (p *levelPlanner) prepare(release string) {
	target := p.l.ceiling(p.t)
	if target == p.l.Cluster {
		if p.l.Since != 0 {
			p.l.Since, p.l.Target = 0, 0
			p.step("not all nodes know a newer feature level now, or it is pinned")
		}
		return
	}
	// An instant in the future was written by a wrong clock.
	if p.l.Target != target || time.UnixMicro(p.l.Since).After(p.now) {
		p.l.Since, p.l.Target = p.now.UnixMicro(), target
		p.step("all nodes know feature level %d: the cluster rises to it in %v, or at `stint cluster upgrade finish`",
			target, LevelSettles)
	}
	if !p.now.Before(p.l.RisesAt()) && p.all(func(r NodeLevels) bool { return r.Max >= target }) {
		p.l.Next, p.l.Release = target, release
		p.step("the nodes' data directories are brought to feature level %d", target)
	}
}

// rise ends a rise when no listed node can be started with a binary that does not know the level, because the level is
// in each data directory. The table must already be fenced so that no older node is registered: another node may be
// planning the table.
func (p *levelPlanner) rise(release string) {
	//mutant:level-before-directories //mutant:level-without-fence
	if p.t.Level < p.l.Next || !p.all(func(r NodeLevels) bool { return r.Kept >= p.l.Next }) {
		return
	}
	p.l.Cluster, p.l.Next, p.l.Since, p.l.Target, p.l.Finish, p.l.Release = p.l.Next, 0, 0, 0, false, release
	p.step("the cluster is at feature level %d", p.l.Cluster)
}

// all reports whether every listed node answers and is holds for its levels.
func (p *levelPlanner) all(is func(NodeLevels) bool) bool {
	for _, n := range p.t.Listed() {
		report, heard := p.seen.Reports[n.ID]
		if !heard || p.seen.Silent[n.ID] > 0 || !is(report.Levels) {
			return false
		}
	}
	return true
}
