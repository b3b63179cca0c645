package node

import (
	"bytes"
	"cmp"
	"log/slog"
	"sync/atomic"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// clusterView is what this node knows of the system shard's documents: the table, the policies, the levels and the secrets. They may
// not be the newest, but never go back to an older version. Writers take turns; all methods may be called concurrently, except
// for those that say otherwise.
type clusterView struct {
	viewConfig

	learning   turns
	unreadable bool // an unreadable document of the system shard was logged; owned by the reconciler
	table      atomic.Pointer[knownTable]
	policies   atomic.Pointer[policy.Revision]
	levels     atomic.Pointer[knownLevels]
	secrets    atomic.Pointer[knownSecrets]
	expelled   atomic.Bool                      // another node said that this one was removed, before this one knew such a table
	founding   atomic.Pointer[gossip.Formation] // the founding that this node takes part in, set by the founder; nil: none
	waiting    atomic.Pointer[string]           // what this node's cluster waits for, set by the founder; nil: it has one
}

// viewConfig is what a clusterView needs.
type viewConfig struct {
	node        string // id of this node
	dir         *dataDir
	binaryLevel shard.Level // the newest feature level that this node's binary knows
	release     string      // of this binary

	policiesFile string      // "": none was given
	filePolicies *policy.Set // the policies in it

	logger         *slog.Logger
	fail           func(error)
	onTable        func() // called after a newer table was learned
	onRulesChanged func() // called after newer policies or levels were learned
}

func newClusterView(config viewConfig) *clusterView {
	return &clusterView{viewConfig: config, learning: newTurns()}
}

// noCluster says why this node has no table yet.
func (v *clusterView) noCluster() string {
	if waiting := v.waiting.Load(); waiting != nil {
		return "this node belongs to no cluster yet: " + *waiting
	}
	return "this node does not know its cluster's table yet"
}

// knownTable is a version of the table, with its text as peers receive it.
type knownTable struct {
	*placement.Table
	version uint64
	text    []byte
}

// newestTable is the newest known table, or an empty one of version 0.
func (v *clusterView) newestTable() knownTable {
	if t := v.table.Load(); t != nil {
		return *t
	}
	return knownTable{}
}

// revision is the newest known revision of the policies; nil while none is known.
func (v *clusterView) revision() *policy.Revision { return v.policies.Load() }

// withParents lists the entries that a check of one entry decides together, by the policies that this node knows.
func (v *clusterView) withParents(e shard.Entry) (together []shard.Entry, revision uint64, err error) {
	if r := v.revision(); r != nil {
		together, err = api.Parents(r.Set, e)
		return together, r.Version, err
	}
	return nil, 0, nil
}

// question asks another node for what is newer than this view.
func (v *clusterView) question() placement.Question {
	q := placement.Question{TableVersion: v.newestTable().version, LevelsVersion: v.newestLevels().version,
		SecretsVersion: v.newestSecrets().version}
	if r := v.revision(); r != nil {
		q.PoliciesVersion = r.Version
	}
	return q
}

// learnTable takes a table that is newer than the known one. It is on disk before this node acts on it: after a restart, a
// replica that one table created must not seem to be listed by none.
func (v *clusterView) learnTable(d shard.Document) {
	defer v.learning.take()()
	if d.Version <= v.newestTable().version {
		return
	}
	table, err := placement.DecodeTable(d.Body)
	if err != nil {
		v.logger.Error("the cluster's table cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := v.dir.keep(recordTable, documentRecord{d.Version, d.Body}); err != nil {
		v.fail(err)
		return
	}
	v.table.Store(&knownTable{table, d.Version, d.Body})
	if v.left() {
		v.fail(v.errRemoved())
	}
	v.onTable()
}

// learnPolicies takes policies that are newer than the known ones.
func (v *clusterView) learnPolicies(d shard.Document) {
	defer v.learning.take()()
	known := v.revision()
	if d.Version == 0 || known != nil && d.Version <= known.Version {
		return
	}
	set, err := policy.Parse("policies", d.Body)
	if err != nil {
		v.logger.Error("the cluster's policies cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	// The file was read at the start. Whether a later change is in it as well is unknown, and nothing to warn of.
	if known == nil && v.policiesFile != "" && !bytes.Equal(policy.Format(v.filePolicies), d.Body) {
		v.logger.Info("the policies file differs from what is in force; stint apply -f FILE puts it in force",
			"file", v.policiesFile, "version", d.Version)
	}
	v.policies.Store(&policy.Revision{Version: d.Version, Text: d.Body, Set: set.At(d.Version)})
	v.onRulesChanged()
}

// learnFrom learns from this node's own replica of the system shard. Only the reconciler calls it.
func (v *clusterView) learnFrom(system *raftfsm.Group) {
	var table, policies, levels, secrets shard.Document
	var noTable, noPolicies, noLevels, noSecrets error
	system.View(func(s *shard.State) {
		table, noTable = shard.ReadDocument(s, placement.TableDocument)
		policies, noPolicies = shard.ReadDocument(s, placement.PoliciesDocument)
		levels, noLevels = shard.ReadDocument(s, placement.LevelsDocument)
		secrets, noSecrets = shard.ReadDocument(s, placement.SecretsDocument)
	})
	if err := cmp.Or(noTable, noPolicies, noLevels, noSecrets); err != nil && !v.unreadable {
		v.logger.Error("a document of the system shard cannot be read; what was known before stays in force", "error", err)
		v.unreadable = true
	}
	v.learnLevels(levels)
	v.learnSecrets(secrets)
	v.learnPolicies(policies)
	v.learnTable(table)
}
