package node

import (
	"bytes"
	"log/slog"
	"sync/atomic"

	"github.com/stint-io/stint/api"
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

// viewConfig is what a clusterView needs.
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

func (v *clusterView) newPoliciesDocument() *document[policy.Revision] {
	return newDocument(documentConfig[policy.Revision]{
		of:   v.documents,
		name: placement.PoliciesDocument,
		what: "policies",
		decode: func(d shard.Document) (*policy.Revision, error) {
			set, err := policy.Parse("policies", d.Body)
			if err != nil {
				return nil, err
			}
			return &policy.Revision{Version: d.Version, Text: d.Body, Set: set.At(d.Version)}, nil
		},
		encode: func(r *policy.Revision) []byte { return r.Text },
		learned: func(before, now known[policy.Revision]) {
			// The file was read at the start. Whether a later change is in it as well is unknown, and nothing to warn
			// of.
			if before.version == 0 && v.policiesFile != "" && !bytes.Equal(policy.Format(v.filePolicies), now.text) {
				v.logger.Info("the policies file differs from what is in force; stint apply -f FILE puts it in force",
					"file", v.policiesFile, "version", now.version)
			}
			v.onRulesChanged()
		},
	})
}

// revision is the newest known revision of the policies; nil while none is known.
func (v *clusterView) revision() *policy.Revision {
	if now := v.policies.now(); now.version > 0 {
		return now.value
	}
	return nil
}

// withParents lists the entries that a check of one entry decides together, by the policies that this node knows.
func (v *clusterView) withParents(e shard.Entry) (together []shard.Entry, revision uint64, err error) {
	if r := v.revision(); r != nil {
		together, err = api.Parents(r.Set, e)
		return together, r.Version, err
	}
	return nil, 0, nil
}
