package node

import (
	"bytes"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// newPoliciesDocument makes the document of the policies. It is not kept on disk: what a shard decides by is in its own
// log (X7).
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
