package node

import (
	"context"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// keysOf is an api.KeysOf by the policies and the secrets that this node knows.
func (v *clusterView) keysOf(namespace string, counted bool) (*keyhash.Namespace, *shard.Error) {
	if r := v.revision(); !counted && (r == nil || !r.Set.HashesKeys(namespace)) {
		return nil, nil
	}
	return v.hashes(namespace)
}

// keysAt returns what hashes the keys of a namespace, nil if they stay as they are, and the version of the policies that says so.
func (v *clusterView) keysAt(namespace string) (*keyhash.Namespace, uint64, *shard.Error) {
	r := v.revision()
	switch {
	case r == nil:
		return nil, 0, nil
	case !r.Set.HashesKeys(namespace):
		return nil, r.Version, nil
	}
	by, err := v.hashes(namespace)
	return by, r.Version, err
}

func (v *clusterView) hashes(namespace string) (*keyhash.Namespace, *shard.Error) {
	if s := v.secrets.Load(); s != nil && s.keys != nil {
		return s.keys.In(namespace), nil
	}
	return nil, api.ErrKeysUnknown
}

// drawKeySecret draws the secret that keys are hashed with, if policies ask for it and there is none yet.
func (d *documents) drawKeySecret(ctx context.Context, set *policy.Set) (drawn bool, err error) {
	if !set.HashesAnyKeys() || len(d.view.newestSecrets().hashesKeys()) > 0 {
		return false, nil
	}
	if err := d.readSecrets(ctx); err != nil { // another node may have drawn it
		return false, err
	}
	err = d.changeSecrets(ctx, func(known knownSecrets) *placement.Secrets {
		next := known.WithKeySecret(newSecret())
		drawn = next != nil
		return next
	})
	return drawn && err == nil, err
}

// hashesKeys returns the secret that keys are hashed with; nil: none is known.
func (k knownSecrets) hashesKeys() placement.Secret {
	if k.Secrets == nil {
		return nil
	}
	return k.Secrets.Keys
}
