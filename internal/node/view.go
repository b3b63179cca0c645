package node

import (
	"bytes"
	"cmp"
	"sync/atomic"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// clusterView is what this node knows of the system shard's documents. They may not be the newest, but never go back to an
// older version. Writers take turns; reads may be concurrent.
type clusterView struct {
	// learning has capacity 1. A document is written to disk before it is used, which may take long. It is not a mutex,
	// because waiting for a mutex does not work in virtual time.
	learning chan struct{}
	// complained: an unreadable document of the system shard was logged. The reconciler's.
	complained bool
	table      atomic.Pointer[knownTable]
	policies   atomic.Pointer[policy.Revision]
	levels     atomic.Pointer[knownLevels]
}

// knownTable is a version of the table, with its text as peers receive it.
type knownTable struct {
	*placement.Table
	version uint64
	text    []byte
	sealer  *shard.Sealer // of the table's secret; nil: it has none
}

func newKnownTable(t *placement.Table, version uint64, text []byte) *knownTable {
	known := &knownTable{Table: t, version: version, text: text}
	if key, ok := t.Secret.Key(); ok {
		known.sealer = shard.NewSealer(key)
	}
	return known
}

// documentRecord is a document as kept in the node's own stores. The kept table says where the other nodes are, for the next
// start.
type documentRecord struct {
	Version uint64
	Text    []byte
}

const recordTable, recordFormation = "table", "formation"

// newest is the table, or an empty one of version 0.
func (k *clusterView) newest() knownTable {
	if t := k.table.Load(); t != nil {
		return *t
	}
	return knownTable{}
}

// sealer seals the ids of holds and decisions; nil while no secret is known.
func (k *clusterView) sealer() *shard.Sealer { return k.newest().sealer }

// revision is the newest known revision of the policies; nil while none is known.
func (k *clusterView) revision() *policy.Revision { return k.policies.Load() }

func (k *clusterView) question() placement.Question {
	q := placement.Question{TableVersion: k.newest().version, LevelsVersion: k.levelsKnown().version}
	if r := k.revision(); r != nil {
		q.PoliciesVersion = r.Version
	}
	return q
}

// takeTurn waits for the turn to learn; calling end ends the turn.
func (k *clusterView) takeTurn() (end func()) {
	k.learning <- struct{}{}
	return func() { <-k.learning }
}

// learnTable takes a table that is newer than the known one. It is on disk before this node acts on it: after a restart, a
// replica that one table created must not seem to be listed by none.
func (n *Node) learnTable(d shard.Document) {
	defer n.known.takeTurn()()
	if d.Version <= n.known.newest().version {
		return
	}
	table, err := placement.DecodeTable(d.Body)
	if err != nil {
		n.config.Logger.Error("the cluster's table cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := n.stores.PutRecord(recordTable, documentRecord{d.Version, d.Body}); err != nil {
		n.fail(diskError(err))
		return
	}
	n.known.table.Store(newKnownTable(table, d.Version, d.Body))
	if n.removed(n.id) {
		n.fail(n.errRemoved())
	}
	n.router.Wake()
}

// learnPolicies takes policies that are newer than the known ones.
func (n *Node) learnPolicies(d shard.Document) {
	defer n.known.takeTurn()()
	if r := n.known.revision(); d.Version == 0 || r != nil && d.Version <= r.Version {
		return
	}
	set, err := policy.Parse("policies", d.Body)
	if err != nil {
		n.config.Logger.Error("the cluster's policies cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if n.config.PoliciesFile != "" && !bytes.Equal(policy.Format(n.policies), d.Body) {
		n.config.Logger.Info("the policies file differs from what is in force; stint apply -f FILE puts it in force",
			"file", n.config.PoliciesFile, "version", d.Version)
	}
	n.known.policies.Store(&policy.Revision{Version: d.Version, Text: d.Body, Set: set.At(d.Version)})
	n.hintActors()
}

// readSystem learns from this node's own replica of the system shard, if it has one.
func (n *Node) readSystem() {
	r := n.replica(shard.System)
	if r == nil {
		return
	}
	var table, policies, levels shard.Document
	var noTable, noPolicies, noLevels error
	r.group.View(func(s *shard.State) {
		table, noTable = shard.ReadDocument(s, placement.TableDocument)
		policies, noPolicies = shard.ReadDocument(s, placement.PoliciesDocument)
		levels, noLevels = shard.ReadDocument(s, placement.LevelsDocument)
	})
	if err := cmp.Or(noTable, noPolicies, noLevels); err != nil && !n.known.complained {
		n.config.Logger.Error("a document of the system shard cannot be read; what was known before stays in force", "error", err)
		n.known.complained = true
	}
	n.learnLevels(levels)
	n.learnPolicies(policies)
	n.learnTable(table)
}
