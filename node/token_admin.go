package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// tokenAdmin implements api.TokenAdmin. Each change replaces one document of the system shard and is in its history,
// with its actor, in one entry. All methods may be called concurrently.
type tokenAdmin struct {
	adminBase
	tokens *tokens

	// adminToken is the first token, unless the cluster has or had one; nil: none was given.
	adminToken *auth.Record
	listing    atomic.Int32 // calls of List that wait for the other nodes' last uses
}

var _ api.TokenAdmin = (*tokenAdmin)(nil)

// wantsUses reports whether a call waits for the last uses of tokens on other nodes.
func (a *tokenAdmin) wantsUses() bool { return a.listing.Load() > 0 }

// writeFirst is a task: it makes the cluster's first token of the one that the configuration gives. A cluster that has
// or had any needs none.
func (a *tokenAdmin) writeFirst(ctx context.Context) {
	if a.adminToken == nil || len(a.tokens.names()) > 0 {
		return
	}
	r := *a.adminToken
	r.Created, r.Creator = a.now().UnixMicro(), localActor
	if err := a.add(ctx, r, localActor); err != nil && ctx.Err() == nil {
		a.logger.Warn("the first token is not made yet; trying again", "error", err)
	}
}

// localActor is the actor of what a node's own configuration says.
const localActor = "local"

// Create implements api.TokenAdmin.
func (a *tokenAdmin) Create(ctx context.Context, r auth.Record, role bool, who string) (text string, err error) {
	r.Created, r.Creator = a.now().UnixMicro(), who
	if r.Expires != 0 && r.Expires <= r.Created {
		return "", shard.Invalidf("expires_at", "lies in the past")
	}
	if !role {
		if text, err = a.newToken(&r); err != nil {
			return "", err
		}
	}
	return text, a.add(ctx, r, who)
}

// add writes a new record, and sees to it that tokens are asked for.
func (a *tokenAdmin) add(ctx context.Context, r auth.Record, who string) error {
	if err := a.setOff(ctx, false, who); err != nil {
		return err
	}
	err := a.change(ctx, r.Name, who, "create "+r.Name+": "+r.TextOfGrants(),
		func(records []auth.Record) ([]auth.Record, error) {
			if slices.ContainsFunc(records, func(other auth.Record) bool { return other.Name == r.Name }) {
				return nil, &shard.Error{Code: shard.Conflict, Field: "name", Message: fmt.Sprintf(
					"there is a token or role %q already: rotate or revoke it, or take another name", r.Name)}
			}
			return append(records, r), nil
		})
	return a.done(err, slog.LevelInfo, "a token was made", "name", r.Name, "actor", who, "grants", r.TextOfGrants())
}

// newToken draws a token for a record.
func (a *tokenAdmin) newToken(r *auth.Record) (text string, err error) {
	if text, err = auth.NewToken(rand.Reader); err != nil {
		return "", err
	}
	return text, r.SetToken(text)
}

// Rotate implements api.TokenAdmin.
func (a *tokenAdmin) Rotate(
	ctx context.Context, name string, overlap time.Duration, may func(*auth.Record) error, who string,
) (text string, err error) {
	var next auth.Record
	if text, err = a.newToken(&next); err != nil {
		return "", err
	}
	note := fmt.Sprintf("rotate %s: the former token ends after %v", name, overlap)
	err = a.change(ctx, name, who, note, func(records []auth.Record) ([]auth.Record, error) {
		i, err := findToken(records, name, may)
		if err != nil {
			return nil, err
		}
		r := &records[i]
		if r.IsRole() {
			return nil, shard.Invalidf("name", "%q is a role, which has no secret: issue another certificate", name)
		}
		r.Former = nil
		if ends := a.now().Add(overlap).UnixMicro(); overlap > 0 {
			r.Former = &auth.Former{ID: r.ID, Hash: r.Hash, Ends: ends}
		}
		r.ID, r.Hash = next.ID, next.Hash
		return records, nil
	})
	return text, a.done(err, slog.LevelInfo, "a token was rotated", "name", name, "actor", who, "overlap", overlap)
}

// Revoke implements api.TokenAdmin.
func (a *tokenAdmin) Revoke(ctx context.Context, name string, may func(*auth.Record) error, who string) error {
	err := a.change(ctx, name, who, "revoke "+name, func(records []auth.Record) ([]auth.Record, error) {
		i, err := findToken(records, name, may)
		if err != nil {
			return nil, err
		}
		return slices.Delete(records, i, i+1), nil
	})
	return a.done(err, slog.LevelInfo, "a token was revoked", "name", name, "actor", who)
}

// findToken returns the place of a record that the caller may change. It does not tell whether there is one that he may
// not.
func findToken(records []auth.Record, name string, may func(*auth.Record) error) (int, error) {
	i := slices.IndexFunc(records, func(r auth.Record) bool { return r.Name == name })
	if i < 0 {
		return 0, shard.Invalidf("name", "no token or role is named %q; stint token list lists them", name)
	}
	return i, may(&records[i])
}

// TurnOff implements api.TokenAdmin.
func (a *tokenAdmin) TurnOff(ctx context.Context, who string) error {
	return a.done(a.setOff(ctx, true, who), slog.LevelWarn, "the cluster no longer asks for tokens", "actor", who)
}

// setOff says in the head whether tokens are asked for. Without a head they are, if there are any.
func (a *tokenAdmin) setOff(ctx context.Context, off bool, who string) error {
	note := "on"
	if off {
		note = "off"
	}
	return a.tokens.head.update(ctx, adjustmentBy(who, note), func(now known[auth.Head]) (*auth.Head, error) {
		if now.value.Off == off {
			return nil, nil
		}
		return &auth.Head{Off: off}, nil
	})
}

// change replaces the records of the bucket in which a name has its place. next returns them; it is called again after
// another node was faster. It may change the records that it gets.
func (a *tokenAdmin) change(
	ctx context.Context, name, who, note string, next func([]auth.Record) ([]auth.Record, error),
) error {
	bucket := a.tokens.buckets[auth.Bucket(name)]
	return bucket.update(ctx, adjustmentBy(who, note), func(now known[[]auth.Record]) (*[]auth.Record, error) {
		records, err := next(slices.Clone(*now.value))
		if err != nil {
			return nil, err
		}
		if len(auth.EncodeBucket(records)) > shard.MaxDocumentBytes {
			return nil, &shard.Error{Code: shard.Conflict, Field: "name",
				Message: "there are too many tokens: revoke those that are not used, or take another name, " +
					"which may have its place beside fewer"}
		}
		return &records, nil
	})
}

// listPatience is how long List waits for the other nodes to say when they last saw which token.
const listPatience = time.Second

// Records implements api.TokenAdmin. It reads the documents: this node may not have heard of the newest yet.
func (a *tokenAdmin) Records(ctx context.Context) ([]auth.Record, error) {
	if !a.peers.hasJoined() {
		return nil, errNoTable
	}
	a.peers.ask()
	if err := a.readAll(ctx); err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(a.tokens.guard.Set().Records()), func(x, y auth.Record) int {
		return strings.Compare(x.Name, y.Name)
	}), nil
}

// List implements api.TokenAdmin.
func (a *tokenAdmin) List(
	ctx context.Context,
) (records []auth.Record, lastUsed map[string]time.Time, required bool, err error) {
	a.listing.Add(1) // from here on reports say when tokens were used
	defer a.listing.Add(-1)
	if records, err = a.Records(ctx); err != nil {
		return nil, nil, false, err
	}
	patience, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	for !a.othersSaid() && patience.Err() == nil {
		sleep.For(patience, 10*time.Millisecond) // reports come twice a second, and at once after ask
	}
	return records, a.tokens.lastUsed(), a.tokens.guard.Set().Required, nil
}

// readAll learns the newest version of each document. The owner of the system shard was heard a moment ago, so the
// buckets that it did not know then are left out.
func (a *tokenAdmin) readAll(ctx context.Context) error {
	all, err := a.documents.fetchAll(ctx, append(a.tokens.names(), auth.HeadDocument)...)
	if err == nil {
		a.documents.learn(all)
	}
	return err
}

// othersSaid reports whether every other node that answers has said when it last saw which token, since it was asked
// to.
func (a *tokenAdmin) othersSaid() bool {
	for _, report := range a.peers.answering() {
		if report.TokenUses == nil {
			return false
		}
	}
	return true
}
