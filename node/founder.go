package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// founder finds the cluster that this node belongs to, or founds one with other nodes. It belongs to the goroutine that
// starts the node and then to the one that joins; writeFirstTable is a task of the reconciler's.
type founder struct {
	node     string // id of this node
	config   Config
	policies *policy.Set // from the policies file: for the cluster that this node founds
	dir      *dataDir
	view     *clusterView
	peers    *peers
	reporter *reporter
	changed  notifier

	formation *gossip.Formation // the one that this node proposed or accepted, as on its disk; nil: none
	throttle  loglimit.Limit
}

// findCluster runs until this node belongs to a cluster, which it then does forever: one that it finds, or one that it
// founds with others. Every step is on disk before any other node hears of it, so each can be resumed.
func (f *founder) findCluster(ctx context.Context) error {
	waits := ""
	var due time.Time // since when this node would propose
	for {
		step := f.nextStep(&due)
		if done, err := f.takeStep(step); done || err != nil {
			f.view.waiting.Store(nil)
			return err
		}
		if step.Action != gossip.FormWait {
			continue
		}
		if silent := f.peers.gossip.Silent(); len(silent) > 0 {
			step.Why += "; nobody answers at " + strings.Join(silent, ", ")
		}
		if step.Why != waits {
			waits = step.Why
			f.view.waiting.Store(&step.Why)
			f.config.Logger.Info("no cluster yet", "waiting", waits)
		}
		select {
		case <-f.changed:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAround is how long a proposal must have been due before it is made. With more nodes than are needed, the nodes
// differ at first in which others they see, and a proposal to a node that has accepted another one is stuck.
const lookAround = time.Second

// nextStep asks Form for the next step. The caller keeps due from call to call.
func (f *founder) nextStep(due *time.Time) gossip.FormationStep {
	step, now := gossip.Form(f.self(), f.peers.gossip.Members()), f.config.World.Now()
	switch {
	case step.Action != gossip.FormPropose:
		*due = time.Time{}
	case due.IsZero():
		*due = now
	}
	if step.Action == gossip.FormPropose && !f.config.alone() && now.Sub(*due) < lookAround {
		step.Action = gossip.FormWait
	}
	return step
}

// self is this node as Form reads it.
func (f *founder) self() gossip.Member {
	self := gossip.Member{Node: f.node, Cluster: f.dir.cluster(), Formation: f.formation}
	if f.config.BootstrapExpect > 1 || f.config.alone() {
		self.Expect = f.config.BootstrapExpect
	}
	return self
}

// takeStep takes the step that Form returned. It returns done once this node's part in the founding, if any, is
// settled.
func (f *founder) takeStep(step gossip.FormationStep) (done bool, err error) {
	switch step.Action {
	case gossip.FormJoin:
		f.config.Logger.Info("joining", "cluster", step.Cluster)
		return true, f.becomeMember(step.Cluster, nil)
	case gossip.FormPropose:
		formation := &gossip.Formation{Cluster: placement.RandomID(), Founders: step.Founders,
			Shards: uint32(f.config.Shards), Replicas: f.config.Replicas}
		return false, f.becomeMember(formation.Cluster, formation)
	case gossip.FormAccept:
		return false, f.becomeMember(step.Formation.Cluster, step.Formation)
	case gossip.FormGo:
		return false, f.keepFormation(step.Formation)
	case gossip.FormFound:
		formation := step.Formation
		f.config.Logger.Info("founding", "cluster", formation.Cluster, "nodes", strings.Join(formation.Founders, " "))
		f.view.founding.Store(formation)
		return true, f.keepFormation(formation)
	}
	return false, nil
}

// becomeMember creates the data directory as that of a node of the cluster, if there is none yet, and tells the other
// nodes. The directory holds the formation from the first moment. A node with a cluster and no formation shows that its
// cluster exists: if a founder were killed in between, the others would join a cluster that does not exist.
func (f *founder) becomeMember(id string, formation *gossip.Formation) error {
	if f.dir.stores == nil {
		kept := map[string]any{}
		if formation != nil {
			kept[recordFormation] = formation
		}
		if f.config.TestClock {
			kept[raftfsm.RecordTestClock] = true
		}
		level := shard.LevelFirst
		if formation != nil { // a newly founded cluster is at the newest level from the start
			level = f.view.binaryLevel
		}
		if err := f.dir.create(raftfsm.Identity{Cluster: id, Node: f.node}, kept, level); err != nil {
			return err
		}
	}
	if err := f.keepFormation(formation); err != nil {
		return err
	}
	return f.peers.gossip.SetCluster(id)
}

// recordFormation is the name of the record of how far a founding is. Documents have records of their own names.
const recordFormation = "formation"

// keepFormation writes down how far the founding is, then announces it.
func (f *founder) keepFormation(formation *gossip.Formation) error {
	if formation == nil {
		return nil
	}
	if err := f.dir.keep(recordFormation, formation); err != nil {
		return err
	}
	f.formation = formation
	return f.peers.gossip.Announce(*formation)
}

// readKept restores how far a founding had come.
func (f *founder) readKept() error {
	var kept gossip.Formation
	found, err := f.dir.read(recordFormation, &kept)
	if found {
		f.formation = &kept
	}
	return err
}

// openSystem creates and opens the first replica of the system shard, if this node is to have one and no table says so
// yet.
func (f *founder) openSystem(o *opener) error {
	formation := f.formation
	if formation == nil || !formation.Go || f.view.hasTable() {
		return nil
	}
	which := raftfsm.Replica{Shard: shard.System, Number: 1}
	voters := placement.SystemVoters(formation.Founders, formation.Replicas)
	if !slices.Contains(voters, which.Name(f.node)) {
		return nil
	}
	if err := raftfsm.CreateGroup(f.dir.stores, which, voters); err != nil {
		return diskError(err)
	}
	return o.open(which, len(voters) == 1)
}

// writeFirstTable is the creator's last part in the founding: it writes the policies, then the table. Both are final
// once written; a creator that comes back later finds them.
func (f *founder) writeFirstTable(ctx context.Context) {
	formation := f.view.founding.Load()
	if formation == nil || formation.Founders[0] != f.node || f.view.hasTable() {
		return
	}
	founders, missing := f.founders(formation)
	if len(missing) > 0 {
		if mayComplain(&f.throttle, "missing founders", f.config.World.Now()) {
			f.config.Logger.Info("the founders' addresses are not known yet", "missing", strings.Join(missing, " "))
		}
		return
	}
	set := f.policies
	if len(set.Names()) == 0 {
		f.config.Logger.Warn("there are no policies: every check will be answered not_found; " +
			"give them with stint apply -f FILE")
	}
	levels := placement.FoundingLevels(formation.Founders, f.reporter.reports(), f.view.binaryLevel, f.config.Version)
	table := placement.NewTable(formation.Cluster, founders, formation.Shards, formation.Replicas)
	founded := adjustmentBy("node:"+f.node, "the cluster was founded")
	err := inOrder(
		func() error { return f.view.policies.found(ctx, founded, &policy.Revision{Text: policy.Format(set)}) },
		func() error { return f.view.levels.found(ctx, nil, levels) },
		func() error { return f.view.secrets.found(ctx, nil, firstSecrets(placement.RandomSecret())) },
		func() error { return f.view.table.found(ctx, nil, table) },
	)
	switch {
	case err == nil:
		f.config.Logger.Info("the cluster is founded", "cluster", formation.Cluster, "shards", formation.Shards,
			"replicas", formation.Replicas)
	case ctx.Err() == nil:
		f.config.Logger.Info("the cluster's documents are not written yet; trying again", "error", err)
	}
	f.changed.notify()
}

// founders describes the founding nodes as gossip knows them, and names the missing ones.
func (f *founder) founders(formation *gossip.Formation) (nodes []placement.Node, missing []string) {
	members := f.peers.gossip.Members()
	for _, id := range formation.Founders {
		i := slices.IndexFunc(members, func(m gossip.Member) bool { return m.Node == id })
		if i < 0 {
			missing = append(missing, id)
			continue
		}
		m := members[i]
		nodes = append(nodes, placement.Node{ID: id, Zone: m.Zone, Version: m.Version, APIAddr: m.APIAddr,
			PeerAddr: m.PeerAddr, GossipAddr: m.GossipAddr})
	}
	return nodes, missing
}
