package node

import (
	"context"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/shard"
)

// errNoSecrets is the error of a call that needs the document of the secrets before there is one.
var errNoSecrets = &shard.Error{Code: shard.Unavailable,
	Message: "this node does not know the cluster's secrets yet; ask again"}

// knownSecrets is a version of the cluster's secrets, and what uses them.
type knownSecrets struct {
	*placement.Secrets
	sealer *shard.Sealer   // nil in secrets that are to be written
	keys   *keyhash.Hasher // nil: no namespace asks for it yet
}

// newSecretsDocument makes the document of the secrets. They are on disk before this node seals with them, or reports
// their version: ids that it gave out can be opened after a restart, and it never seals with a secret that it said to
// have given up.
func (v *clusterView) newSecretsDocument() *document[knownSecrets] {
	return newDocument(documentConfig[knownSecrets]{
		of:   v.documents,
		name: placement.SecretsDocument,
		what: "secrets",
		decode: func(d shard.Document) (*knownSecrets, error) {
			secrets, err := placement.DecodeSecrets(d.Body)
			if err != nil {
				return nil, err
			}
			known := &knownSecrets{Secrets: secrets, sealer: secrets.Sealer()}
			if key, ok := secrets.Keys.Key(); ok {
				known.keys = keyhash.New(key)
			}
			return known, nil
		},
		encode: func(s *knownSecrets) []byte { return s.Encode() },
		none:   &knownSecrets{Secrets: &placement.Secrets{}},
		kept:   true,
	})
}

// firstSecrets are those of a cluster with one secret.
func firstSecrets(secret placement.Secret) *knownSecrets {
	return &knownSecrets{Secrets: placement.NewSecrets(secret)}
}

// newestSecrets are the newest known secrets; while none are known, there are none to seal with.
func (v *clusterView) newestSecrets() *knownSecrets { return v.secrets.now().value }

// sealer seals the ids of holds and decisions; nil while no secret is known.
func (v *clusterView) sealer() *shard.Sealer { return v.newestSecrets().sealer }

// changeSecrets replaces the newest version of the secrets by change's result; nil changes nothing.
func (v *clusterView) changeSecrets(ctx context.Context, by *shard.Adjustment,
	change func(known[knownSecrets]) (*placement.Secrets, error)) error {
	return v.secrets.change(ctx, by, func(now known[knownSecrets]) (*knownSecrets, error) {
		if now.version == 0 {
			return nil, errNoSecrets
		}
		next, err := change(now)
		if err != nil || next == nil {
			return nil, err
		}
		return &knownSecrets{Secrets: next}, nil
	})
}

// shownSecret is what keys are hashed with that are shown to callers that may not see them: the secret that seals ids.
func (v *clusterView) shownSecret() (secret [32]byte, ok bool) {
	s := v.newestSecrets()
	for _, one := range s.Sealing {
		if one.Number == s.SealsWith() {
			return one.Key.Key()
		}
	}
	return secret, false
}
