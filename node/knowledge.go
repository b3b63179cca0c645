package node

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/cluster"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// knowledge is what this node knows of the system shard's documents: perhaps not the newest, but never older than it
// was. Whoever learns takes turns; anybody reads.
type knowledge struct {
	learning sync.Mutex
	table    atomic.Pointer[knownTable]
	policies atomic.Pointer[policy.Revision]
}

// knownTable is a version of the table, with its text as peers are given it.
type knownTable struct {
	*cluster.Table
	version uint64
	text    []byte
	sealer  *shard.Sealer // of the table's secret; nil: it has none
}

func newKnownTable(t *cluster.Table, version uint64, text []byte) *knownTable {
	known := &knownTable{Table: t, version: version, text: text}
	if key, ok := t.Secret.Key(); ok {
		known.sealer = shard.NewSealer(key)
	}
	return known
}

// tableKept is the record of the table in the node's own stores: where the others are, for the next start.
type tableKept struct {
	Version uint64
	Text    []byte
}

const keptTable, keptFormation = "table", "formation"

// newest is the table, or an empty one of version 0.
func (k *knowledge) newest() knownTable {
	if t := k.table.Load(); t != nil {
		return *t
	}
	return knownTable{}
}

// sealer makes the ids of holds and decisions; nil while no secret is known.
func (k *knowledge) sealer() *shard.Sealer { return k.newest().sealer }

// revision is the newest policies known; nil while none are.
func (k *knowledge) revision() *policy.Revision { return k.policies.Load() }

func (k *knowledge) question() cluster.Question {
	q := cluster.Question{TableVersion: k.newest().version}
	if r := k.revision(); r != nil {
		q.PoliciesVersion = r.Version
	}
	return q
}

// learnTable takes a table that is newer than ours. It is kept on disk before anything is done by it: a replica that
// was created by a table must not seem to be listed by none after a restart.
func (n *Node) learnTable(d shard.Document) {
	n.known.learning.Lock()
	defer n.known.learning.Unlock()
	if d.Version <= n.known.newest().version {
		return
	}
	table, err := cluster.DecodeTable(d.Body)
	if err != nil {
		n.config.Logger.Error("the cluster's table cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := n.stores.Keep(keptTable, tableKept{d.Version, d.Body}); err != nil {
		n.fail(diskError(err))
		return
	}
	n.known.table.Store(newKnownTable(table, d.Version, d.Body))
	n.router.Wake()
}

// learnPolicies takes policies that are newer than ours.
func (n *Node) learnPolicies(d shard.Document) {
	n.known.learning.Lock()
	defer n.known.learning.Unlock()
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
	n.known.policies.Store(&policy.Revision{Version: d.Version, Text: d.Body, Set: set})
	n.hintActors()
}

// readSystem learns from this node's own replica of the system shard, if it has one.
func (n *Node) readSystem() {
	r := n.replica(shard.System)
	if r == nil {
		return
	}
	var table, policies shard.Document
	r.group.View(func(s *shard.State) {
		table, policies = shard.ReadDocument(s, cluster.TableDocument), shard.ReadDocument(s, cluster.PoliciesDocument)
	})
	n.learnPolicies(policies)
	n.learnTable(table)
}
