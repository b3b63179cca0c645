package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// findCluster runs until this node belongs to a cluster, which it then does forever: one that it finds, or one that it founds
// with others. Every step is on disk before any other node hears of it, so each can be resumed.
func (n *Node) findCluster(ctx context.Context) error {
	waits := ""
	var due time.Time // since when this node would propose
	for {
		step := n.nextStep(&due)
		if done, err := n.takeStep(step); done || err != nil {
			return err
		}
		if step.Action != gossip.FormWait {
			continue
		}
		if step.Why != waits {
			waits = step.Why
			n.config.Logger.Info("no cluster yet", "waiting", waits)
		}
		select {
		case <-n.kicked:
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAround is how long a proposal must have been due before it is made. With more nodes than are needed, the nodes differ
// at first in which others they see, and a proposal to a node that has accepted another one is stuck.
const lookAround = time.Second

// nextStep asks Form for the next step. The caller keeps due from call to call.
func (n *Node) nextStep(due *time.Time) gossip.FormationStep {
	step, now := gossip.Form(n.formationSelf(), n.gossip.Members()), n.config.World.Now()
	switch {
	case step.Action != gossip.FormPropose:
		*due = time.Time{}
	case due.IsZero():
		*due = now
	}
	if step.Action == gossip.FormPropose && !n.config.alone() && now.Sub(*due) < lookAround {
		step.Action = gossip.FormWait
	}
	return step
}

func (n *Node) formationSelf() gossip.FormationSelf {
	self := gossip.FormationSelf{Node: n.id, Formation: n.formation}
	if n.config.BootstrapExpect > 1 || n.config.alone() {
		self.Expect = n.config.BootstrapExpect
	}
	if n.stores != nil {
		self.Cluster = n.stores.Identity().Cluster
	}
	return self
}

// takeStep takes the step that Form returned. It returns done once this node's part in the founding, if any, is settled.
func (n *Node) takeStep(step gossip.FormationStep) (done bool, err error) {
	switch step.Action {
	case gossip.FormJoin:
		n.config.Logger.Info("joining", "cluster", step.Cluster)
		return true, n.becomeMember(step.Cluster, nil)
	case gossip.FormPropose:
		f := &gossip.Formation{Cluster: randomID(), Founders: step.Founders, Shards: uint32(n.config.Shards),
			Replicas: n.config.Replicas}
		return false, n.becomeMember(f.Cluster, f)
	case gossip.FormAccept:
		return false, n.becomeMember(step.Formation.Cluster, step.Formation)
	case gossip.FormGo:
		return false, n.keepFormation(step.Formation)
	case gossip.FormFound:
		f := step.Formation
		n.config.Logger.Info("founding", "cluster", f.Cluster, "nodes", strings.Join(f.Founders, " "))
		return true, n.keepFormation(f)
	}
	return false, nil
}

// becomeMember creates the data directory as that of a node of the cluster, if there is none yet, and tells the other nodes.
// The directory holds the formation from the first moment. A node with a cluster and no formation shows that its cluster
// exists: if a founder were killed in between, the others would join a cluster that does not exist.
func (n *Node) becomeMember(id string, f *gossip.Formation) error {
	if n.stores == nil {
		kept := map[string]any{}
		if f != nil {
			kept[recordFormation] = f
		}
		level := shard.LevelFirst
		if f != nil { // a newly founded cluster is at the newest level from the start
			level = n.newestLevel()
		}
		if err := n.openStores(raftfsm.Identity{Cluster: id, Node: n.id}, kept, level); err != nil {
			return err
		}
	}
	if err := n.keepFormation(f); err != nil {
		return err
	}
	return n.gossip.SetCluster(id)
}

// keepFormation writes down how far the founding is, then announces it.
func (n *Node) keepFormation(f *gossip.Formation) error {
	if f == nil {
		return nil
	}
	if err := n.stores.PutRecord(recordFormation, f); err != nil {
		return diskError(err)
	}
	n.formation = f
	return n.gossip.Announce(*f)
}

// readRecords restores what this node wrote down before.
func (n *Node) readRecords() error {
	var f gossip.Formation
	found, err := n.stores.ReadRecord(recordFormation, &f)
	if err != nil {
		return diskError(err)
	}
	if found {
		n.formation = &f
	}
	var kept documentRecord
	if found, err = n.stores.ReadRecord(recordTable, &kept); err != nil {
		return diskError(err)
	}
	if found {
		table, err := placement.DecodeTable(kept.Text)
		if err != nil {
			return fmt.Errorf("the table kept in the data directory: %w", err)
		}
		n.known.table.Store(newKnownTable(table, kept.Version, kept.Text))
	}
	if err := n.readKeptLevels(); err != nil {
		return err
	}
	return n.adoptLoneNode()
}

// adoptLoneNode makes a node whose data directory is older than clusters the founder of its own cluster.
func (n *Node) adoptLoneNode() error {
	identity := n.stores.Identity()
	if n.formation != nil || n.known.newest().Table != nil || len(n.stores.Groups()) == 0 {
		return nil
	}
	n.formation = &gossip.Formation{Cluster: identity.Cluster, Founders: []string{n.id}, Shards: identity.Shards,
		Replicas: n.config.Replicas, Go: true}
	if err := n.stores.PutRecord(recordFormation, n.formation); err != nil {
		return diskError(err)
	}
	return nil
}

// foundingNodes names the nodes of the system shard's first voters, as long as no table does.
func (n *Node) foundingNodes(id shard.ID) []string {
	f := n.founding.Load()
	if f == nil || id != shard.System {
		return nil
	}
	var nodes []string
	for _, name := range placement.SystemVoters(f.Founders, f.Replicas) {
		nodes = append(nodes, nodeOf(name))
	}
	return nodes
}

// openSystem creates and opens the first replica of the system shard, if this node is to have one and no table says so yet.
func (n *Node) openSystem() error {
	f := n.formation
	if f == nil || !f.Go || n.known.newest().Table != nil {
		return nil
	}
	n.founding.Store(f)
	which := raftfsm.Replica{Shard: shard.System, Number: 1}
	voters := placement.SystemVoters(f.Founders, f.Replicas)
	if !slices.Contains(voters, n.name(which)) {
		return nil
	}
	if err := raftfsm.CreateGroup(n.stores, which, voters); err != nil {
		return diskError(err)
	}
	return n.open(which, len(voters) == 1)
}

// writeFirstTable is the creator's last part in the founding: it writes the policies, then the table. Both are final once
// written; a creator that comes back later finds them.
func (n *Node) writeFirstTable(ctx context.Context) {
	f := n.founding.Load()
	if f == nil || f.Founders[0] != n.id || n.known.newest().Table != nil {
		return
	}
	founders, missing := n.founders(f)
	if len(missing) > 0 {
		if n.throttle.due("missing founders", n.config.World.Now()) {
			n.config.Logger.Info("the founders' addresses are not known yet", "missing", strings.Join(missing, " "))
		}
		return
	}
	set := n.policies
	if len(set.Names()) == 0 {
		n.config.Logger.Warn("there are no policies: every check will be answered not_found; give them with stint apply -f FILE")
	}
	levels := placement.FoundingLevels(f.Founders, n.reports(), n.newestLevel(), n.config.Version)
	table := placement.NewTable(f.Cluster, founders, f.Shards, f.Replicas).ApplySecret(newSecret())
	_, err := n.swap(ctx, placement.PoliciesDocument, 0, policy.Format(set))
	if err == nil || isConflict(err) {
		_, err = n.swap(ctx, placement.LevelsDocument, 0, levels.Encode())
	}
	if err == nil || isConflict(err) {
		_, err = n.swap(ctx, placement.TableDocument, 0, table.Encode())
	}
	switch {
	case err == nil:
		n.config.Logger.Info("the cluster is founded", "cluster", f.Cluster, "shards", f.Shards, "replicas", f.Replicas)
	case !isConflict(err) && ctx.Err() == nil:
		n.config.Logger.Info("the cluster's documents are not written yet; trying again", "error", err)
	}
	n.kick()
}

// newSecret draws a random secret for a cluster.
func newSecret() placement.Secret {
	var key [32]byte
	rand.Read(key[:])
	return key[:]
}

// founders describes the founding nodes as gossip knows them, and names the missing ones.
func (n *Node) founders(f *gossip.Formation) (nodes []placement.Node, missing []string) {
	members := n.gossip.Members()
	for _, id := range f.Founders {
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

// swap replaces a document of the system shard.
func (n *Node) swap(ctx context.Context, name string, expect uint64, body []byte) (shard.Document, error) {
	return n.replace(ctx, shard.Request{Document: name, Expect: expect, Body: body})
}

// replace is swap with all the fields that a request may have, such as its actor.
func (n *Node) replace(ctx context.Context, request shard.Request) (shard.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request.Op, request.Namespace = shard.Swap, systemNamespace
	r := n.router.Submit(ctx, shard.System, []shard.Request{request})[0]
	if r.Err != nil {
		return shard.Document{}, r.Err
	}
	d := r.Decision.Document()
	d.Body = request.Body
	return d, nil
}

// fetch reads a document of the system shard.
func (n *Node) fetch(ctx context.Context, name string) (shard.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r := n.router.Submit(ctx, shard.System, []shard.Request{{Op: shard.Fetch, Namespace: systemNamespace, Document: name}})[0]
	if r.Err != nil {
		return shard.Document{}, r.Err
	}
	return r.Decision.Document(), nil
}

// systemNamespace is the namespace of document requests: the system shard has no keys.
const systemNamespace = "system"

// documentTimeout bounds one exchange with the system shard: an election fits into it.
const documentTimeout = 5 * time.Second

func isConflict(err error) bool {
	var e *shard.Error
	return errors.As(err, &e) && e.Code == shard.Conflict
}

// changeTable replaces the newest version of the table by change's result; a nil result changes nothing.
func (n *Node) changeTable(ctx context.Context, change func(t *placement.Table) *placement.Table) error {
	return n.changeDocument(ctx, placement.TableDocument, n.learnTable, func() (version uint64, text []byte, err error) {
		known := n.known.newest()
		if known.Table == nil {
			return 0, nil, errNoTable
		}
		if next := change(known.Table); next != nil {
			text = next.Encode()
		}
		return known.version, text, nil
	})
}

// errNoTable is the error of a request that needs the table, before this node knows one.
var errNoTable = &shard.Error{Code: shard.Unavailable, Message: "this node does not know the cluster's table yet; ask again"}

// changeDocument replaces the newest version of a document. change returns the text that replaces the version it knows; no
// text changes nothing. It is called again after another node was faster. learn takes up each version that is seen.
func (n *Node) changeDocument(ctx context.Context, name string, learn func(shard.Document),
	change func() (version uint64, text []byte, err error)) error {
	for {
		version, text, err := change()
		if err != nil || text == nil {
			return err
		}
		d, err := n.swap(ctx, name, version, text)
		if err == nil {
			learn(d)
			return nil
		}
		if !isConflict(err) {
			return err
		}
		if d, err = n.fetch(ctx, name); err != nil {
			return err
		}
		learn(d)
	}
}

// readTable learns the newest version of the table.
func (n *Node) readTable(ctx context.Context) error {
	d, err := n.fetch(ctx, placement.TableDocument)
	if err == nil {
		n.learnTable(d)
	}
	return err
}
