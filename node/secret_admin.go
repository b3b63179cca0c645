package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// secretAdmin implements api.SecretAdmin. A rotation and the dropping of secrets replace their document, and are in its
// history with the actor; the planner does the rest. All methods may be called concurrently.
type secretAdmin struct {
	adminBase
	reading turns // one read of the newest secrets at a time: a client may send ids of a secret that no node has
}

var _ api.SecretAdmin = (*secretAdmin)(nil)

// Secrets implements api.SecretAdmin. It reads the document first: this node may not have heard of the newest yet.
func (a *secretAdmin) Secrets(ctx context.Context) (s *placement.Secrets, unconfirmed []string, err error) {
	if err := a.ready(); err != nil {
		return nil, nil, err
	}
	newest, err := a.view.secrets.fetch(ctx)
	if err == nil && newest.version == 0 {
		err = errNoSecrets
	}
	if err != nil {
		return nil, nil, err
	}
	if s = newest.value.Secrets; !s.Settled() {
		unconfirmed = a.unconfirmed(newest.version)
	}
	return s, unconfirmed, nil
}

// ready refuses a change by a node that is in no cluster yet.
func (a *secretAdmin) ready() error {
	if !a.view.hasTable() || !a.peers.hasJoined() {
		return errNoTable
	}
	return nil
}

func (a *secretAdmin) unconfirmed(version uint64) []string {
	return placement.Unconfirmed(a.view.newestTable(), version, a.reporter.reports())
}

// Rotate implements api.SecretAdmin.
func (a *secretAdmin) Rotate(ctx context.Context, who string) (number uint32, err error) {
	err = a.change(ctx, "rotate", who, func(s *placement.Secrets) (next *placement.Secrets, err error) {
		next, number, err = s.ApplyRotation(placement.RandomSecret(), a.now())
		return next, err
	})
	return number, a.done(err, slog.LevelInfo, "a sealing secret was added", "number", number, "actor", who)
}

// DropOld implements api.SecretAdmin.
func (a *secretAdmin) DropOld(ctx context.Context, who string) (dropped []uint32, err error) {
	err = a.change(ctx, "drop-old", who, func(s *placement.Secrets) (next *placement.Secrets, err error) {
		next, dropped, err = s.ApplyDrop()
		return next, err
	})
	return dropped, a.done(err, slog.LevelWarn,
		"sealing secrets were dropped: what is sealed with them can no longer be settled", "numbers", dropped,
		"actor", who)
}

// change replaces the secrets by next's result, which is called again after another node was faster. The note says what
// is done.
func (a *secretAdmin) change(
	ctx context.Context, note, who string, next func(*placement.Secrets) (*placement.Secrets, error),
) error {
	if err := a.ready(); err != nil {
		return err
	}
	if _, err := a.view.secrets.fetch(ctx); err != nil {
		return err
	}
	return a.view.changeSecrets(ctx, adjustmentBy(who, note), func(now known[knownSecrets]) (*placement.Secrets, error) {
		changed, err := next(now.value.Secrets)
		if err != nil {
			return nil, a.refusal(err, now.version)
		}
		return changed, nil
	})
}

// refusal says which nodes a rotation waits for.
func (a *secretAdmin) refusal(err error, version uint64) error {
	message := err.Error()
	if missing := a.unconfirmed(version); errors.Is(err, placement.ErrRotating) && len(missing) > 0 {
		message += fmt.Sprintf(": it waits for %s; a node that does not come back has to be removed",
			strings.Join(missing, ", "))
	}
	return &shard.Error{Code: shard.Conflict, Message: message + "; nothing was changed"}
}

// newestSealer reads the newest secrets, and returns their sealer.
func (a *secretAdmin) newestSealer(ctx context.Context) (*shard.Sealer, error) {
	defer a.reading.take()()
	if _, err := a.view.secrets.fetch(ctx); err != nil {
		return nil, err
	}
	return a.view.sealer(), nil
}
