package node

import (
	"log/slog"
	"sync/atomic"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// clusterView is what this node knows of the system shard's documents: the table, the policies, the levels and the
// secrets. All methods may be called concurrently, except for those that say otherwise.
type clusterView struct {
	viewConfig

	table    *document[placement.Table]
	policies *document[policy.Revision]
	levels   *document[placement.Levels]
	secrets  *document[knownSecrets]

	// expelled: another node said that this one was removed, before this one knew such a table.
	expelled atomic.Bool
	founding atomic.Pointer[gossip.Formation] // by which this node founds its cluster, set by the founder; nil: by none
	waiting  atomic.Pointer[string]           // what this node's cluster waits for, set by the founder; nil: it has one
}

// viewConfig is what a clusterView needs. An edge gives only documents, logger and functions.
type viewConfig struct {
	node        string // id of this node
	dir         *dataDir
	documents   *documents
	binaryLevel shard.Level // the newest feature level that this node's binary knows
	release     string      // of this binary

	policiesFile string      // "": none was given
	filePolicies *policy.Set // the policies in it

	logger         *slog.Logger
	fail           func(error)
	onTable        func() // called after a newer table was learned
	onRulesChanged func() // called after newer policies or levels were learned
}

// newClusterView makes the view of a node that knows nothing yet, and shares its documents with the other nodes, those
// of tokens too.
func newClusterView(config viewConfig, tokens *tokens) *clusterView {
	v := &clusterView{viewConfig: config}
	v.table, v.policies = v.newTableDocument(), v.newPoliciesDocument()
	v.levels, v.secrets = v.newLevelsDocument(), v.newSecretsDocument()
	config.documents.shared = []sharedDocument{v.levels, v.secrets, v.policies}
	config.documents.shared = append(config.documents.shared, tokens.shared()...)
	config.documents.shared = append(config.documents.shared, v.table)
	return v
}

// noCluster says why this node has no table yet.
func (v *clusterView) noCluster() string {
	if waiting := v.waiting.Load(); waiting != nil {
		return "this node belongs to no cluster yet: " + *waiting
	}
	return "this node does not know its cluster's table yet"
}
