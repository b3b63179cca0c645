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

// keysAt returns what hashes the keys of a namespace, nil if they stay as they are, and the version of the policies
// that says so.
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
	if keys := v.newestSecrets().keys; keys != nil {
		return keys.In(namespace), nil
	}
	return nil, api.ErrKeysUnknown
}

// drawKeySecret draws the secret that keys are hashed with, if policies ask for it and there is none yet.
func (v *clusterView) drawKeySecret(ctx context.Context, set *policy.Set) (drawn bool, err error) {
	if !set.HashesAnyKeys() || len(v.newestSecrets().Keys) > 0 {
		return false, nil
	}
	if _, err := v.secrets.fetch(ctx); err != nil { // another node may have drawn it
		return false, err
	}
	err = v.changeSecrets(ctx, nil, func(now known[knownSecrets]) (*placement.Secrets, error) {
		next := now.value.WithKeySecret(placement.RandomSecret())
		drawn = next != nil
		return next, nil
	})
	return drawn && err == nil, err
}
