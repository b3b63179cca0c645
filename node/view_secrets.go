package node

import (
	"fmt"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/shard"
)

// knownSecrets is a version of the cluster's secrets, with their text as listed peers receive it.
type knownSecrets struct {
	*placement.Secrets
	version uint64
	text    []byte
	sealer  *shard.Sealer
	keys    *keyhash.Hasher // nil: no namespace asks for it yet
}

// newestSecrets is the newest known version, or an empty one of version 0.
func (v *clusterView) newestSecrets() knownSecrets {
	if s := v.secrets.Load(); s != nil {
		return *s
	}
	return knownSecrets{}
}

// sealer seals the ids of holds and decisions; nil while no secret is known.
func (v *clusterView) sealer() *shard.Sealer { return v.newestSecrets().sealer }

// learnSecrets takes secrets that are newer than the known ones. They are on disk before this node seals with them, or reports
// their version: ids that it gave out can be opened after a restart, and it never seals with a secret that it said to have given up.
func (v *clusterView) learnSecrets(d shard.Document) {
	defer v.learning.take()()
	if d.Version <= v.newestSecrets().version {
		return
	}
	known, err := newKnownSecrets(d.Version, d.Body)
	if err != nil {
		v.logger.Error("the cluster's secrets cannot be read: run a newer version", "version", d.Version, "error", err)
		return
	}
	if err := v.dir.keep(recordSecrets, documentRecord{d.Version, d.Body}); err != nil {
		v.fail(err)
		return
	}
	v.secrets.Store(known)
}

func newKnownSecrets(version uint64, text []byte) (*knownSecrets, error) {
	secrets, err := placement.DecodeSecrets(text)
	if err != nil {
		return nil, err
	}
	known := &knownSecrets{secrets, version, text, secrets.Sealer(), nil}
	if key, ok := secrets.Keys.Key(); ok {
		known.keys = keyhash.New(key)
	}
	return known, nil
}

// readKeptSecrets restores the secrets that this node wrote down before.
func (v *clusterView) readKeptSecrets() error {
	var kept documentRecord
	found, err := v.dir.read(recordSecrets, &kept)
	if err != nil || !found {
		return err
	}
	known, err := newKnownSecrets(kept.Version, kept.Text)
	if err != nil {
		return fmt.Errorf("the secrets kept in the data directory: %w", err)
	}
	v.secrets.Store(known)
	return nil
}
