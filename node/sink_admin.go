package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// sinkAdmin implements api.SinkAdmin, and reads the sinks for this node's dispatcher and pusher. All sinks are one
// document of the system shard. Each change is in its history with its actor, and never with a secret. All methods may
// be called concurrently.
type sinkAdmin struct {
	adminBase
	sinks *document[[]notify.Sink]
	woken notifier // wakes this node's dispatcher; those of other nodes look by themselves

	turns turns
	read  time.Time // guarded by turns: when the sinks and the ledger were read last; zero: never
	asked time.Time // guarded by turns: when that was tried last; zero: what was read is out of date
}

func newSinkAdmin(a adminBase) *sinkAdmin {
	return &sinkAdmin{adminBase: a, woken: newNotifier(), turns: newTurns(),
		sinks: newDocument(documentConfig[[]notify.Sink]{
			of:     a.documents,
			name:   notify.Document,
			what:   "sinks",
			decode: func(d shard.Document) (*[]notify.Sink, error) { return pointTo(notify.Decode(d.Body)) },
			encode: func(all *[]notify.Sink) []byte { return notify.Encode(*all) },
		})}
}

// readRecently reads the sinks, and the ledger, which the ids of events and bills are made with, unless that was done
// at most maxAge ago. It returns when they were read last. If they cannot be read, it tries no more for that long.
func (a *sinkAdmin) readRecently(ctx context.Context, maxAge time.Duration) (read time.Time, err error) {
	defer a.turns.take()()
	now := a.now()
	if now.Before(a.asked.Add(maxAge)) {
		return a.read, nil
	}
	a.asked = now
	within, cancel := context.WithTimeout(ctx, sinksWithin)
	defer cancel()
	if _, err = a.sinks.fetch(within); err == nil {
		_, err = a.documents.ledger(within)
	}
	if err == nil {
		a.read = now
	}
	return a.read, err
}

// billing returns the policies in force and the sinks as this node has read them lately, or ever; none if the policies
// send no bills. The caller changes nothing.
func (a *sinkAdmin) billing(ctx context.Context) (*policy.Set, []notify.Sink, error) {
	revision := a.view.revision()
	if revision == nil || !sendsBills(revision.Set) {
		return nil, nil, nil
	}
	read, err := a.readRecently(ctx, pushSinksEvery)
	if err == nil && read.IsZero() {
		err = errors.New("node: the sinks could not be read yet")
	}
	return revision.Set, *a.sinks.now().value, err
}

var _ api.SinkAdmin = (*sinkAdmin)(nil)

// Create implements api.SinkAdmin.
func (a *sinkAdmin) Create(ctx context.Context, s notify.Sink, who string) (secret string, err error) {
	now := a.now()
	s.Created, s.Creator = now.UnixMicro(), who
	for i := range s.Secrets {
		s.Secrets[i].Made = s.Created
	}
	if s.Kind == notify.Webhook {
		drawn, err := notify.NewSecret(rand.Reader, now)
		if err != nil {
			return "", err
		}
		s.Secrets, secret = []notify.Secret{drawn}, drawn.Text()
	}
	note := fmt.Sprintf("create %s: %s for %s to %s", s.Name, s.Kind, strings.Join(s.Events, ","), hostOf(s.URL))
	err = a.change(ctx, who, note, func(all []notify.Sink) ([]notify.Sink, error) {
		if slices.ContainsFunc(all, func(other notify.Sink) bool { return other.Name == s.Name }) {
			return nil, &shard.Error{Code: shard.Conflict, Field: "name", Message: fmt.Sprintf(
				"there is a sink %q already: delete it, or take another name", s.Name)}
		}
		if len(all) >= notify.SinksMost {
			return nil, &shard.Error{Code: shard.Conflict, Field: "name", Message: fmt.Sprintf(
				"there are %d sinks, and no more are allowed: delete those that are not used", len(all))}
		}
		return append(all, s), nil
	})
	return secret, a.done(err, slog.LevelInfo, "a sink was made", "name", s.Name, "kind", s.Kind, "actor", who)
}

// hostOf is an address without its path, which is the secret of many a webhook.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Scheme + "://" + u.Host
}

// Sinks reads all sinks, by name.
func (a *sinkAdmin) Sinks(ctx context.Context) ([]notify.Sink, error) {
	newest, err := a.sinks.fetch(ctx)
	return *newest.value, err
}

// Statuses implements api.SinkAdmin.
func (a *sinkAdmin) Statuses(ctx context.Context) ([]api.SinkStatus, error) {
	all, err := a.Sinks(ctx)
	if err != nil || !a.peers.hasJoined() {
		return nil, err
	}
	statuses := make([]api.SinkStatus, len(all))
	reports := a.reporter.reports()
	for i := range all {
		statuses[i].Sink = all[i]
		for _, node := range slices.Sorted(maps.Keys(reports)) {
			if why := reports[node].FailingSinks[all[i].Name]; why != "" {
				statuses[i].Failing = why
			}
			statuses[i].Skipped.Add(reports[node].SkippedBills[all[i].Name], math.MaxInt)
		}
	}
	return statuses, nil
}

// Rotate implements api.SinkAdmin.
func (a *sinkAdmin) Rotate(
	ctx context.Context, name, apiKey string, overlap time.Duration, who string,
) (secret string, err error) {
	drawn, err := notify.NewSecret(rand.Reader, a.now())
	if err != nil {
		return "", err
	}
	note := fmt.Sprintf("rotate %s: the former secret ends after %v", name, overlap)
	err = a.changeOne(ctx, name, who, note, func(s *notify.Sink) (bool, error) {
		next := drawn
		secret = drawn.Text()
		switch {
		case s.Kind != notify.Webhook && apiKey == "":
			return false, shard.Invalidf("api_key", "%q is a sink of kind %s: give its new API key", name, s.Kind)
		case s.Kind != notify.Webhook && overlap != 0:
			return false, shard.Invalidf("overlap", "%q is a sink of kind %s, which uses one API key", name, s.Kind)
		case s.Kind != notify.Webhook:
			next.Key, secret = []byte(apiKey), ""
		case apiKey != "":
			return false, shard.Invalidf("api_key", "is for stripe and cloudevents only: "+
				"a webhook's secret is drawn here")
		}
		s.Rotate(next, overlap, a.now())
		if field, problem := s.Problem(); problem != "" {
			return false, shard.Invalidf(field, "%s", problem)
		}
		return true, nil
	})
	return secret, a.done(err, slog.LevelInfo, "the secret of a sink was rotated", "name", name, "actor", who,
		"overlap", overlap)
}

// SetEnabled implements api.SinkAdmin.
func (a *sinkAdmin) SetEnabled(ctx context.Context, name string, enabled bool, who string) error {
	if !enabled {
		err := a.disable(ctx, name, "by "+who, who, func(notify.Sink) bool { return true })
		return a.done(err, slog.LevelInfo, "a sink was disabled", "name", name, "actor", who)
	}
	err := a.changeOne(ctx, name, who, "enable "+name, func(s *notify.Sink) (bool, error) {
		s.Disabled, s.Looked = nil, a.now().UnixMicro()
		return true, nil
	})
	return a.done(err, slog.LevelInfo, "a sink was enabled", "name", name, "actor", who)
}

// disable keeps events back until the sink is enabled, if it is the one that is meant.
func (a *sinkAdmin) disable(ctx context.Context, name, why, who string, meant func(notify.Sink) bool) error {
	return a.changeOne(ctx, name, who, "disable "+name+": "+why, func(s *notify.Sink) (bool, error) {
		//mutant:successor-is-disabled
		if s.Disabled != nil || !meant(*s) {
			return false, nil
		}
		s.Disabled = &notify.Disabled{At: a.now().UnixMicro(), Why: why}
		return true, nil
	})
}

// Delete implements api.SinkAdmin.
func (a *sinkAdmin) Delete(ctx context.Context, name, who string) error {
	err := a.change(ctx, who, "delete "+name, func(all []notify.Sink) ([]notify.Sink, error) {
		i, err := findSink(all, name)
		if err != nil {
			return nil, err
		}
		return slices.Delete(all, i, i+1), nil
	})
	return a.done(err, slog.LevelInfo, "a sink was deleted", "name", name, "actor", who)
}

func findSink(all []notify.Sink, name string) (int, error) {
	i := slices.IndexFunc(all, func(s notify.Sink) bool { return s.Name == name })
	if i < 0 {
		return 0, shard.Invalidf("name", "no sink is named %q; stint sink list lists them", name)
	}
	return i, nil
}

// changeOne changes one sink. do reports whether anything is different; it is called again after another node was
// faster.
func (a *sinkAdmin) changeOne(
	ctx context.Context, name, who, note string, do func(*notify.Sink) (changed bool, err error),
) error {
	return a.change(ctx, who, note, func(all []notify.Sink) ([]notify.Sink, error) {
		i, err := findSink(all, name)
		if err != nil {
			return nil, err
		}
		all[i].Secrets = slices.Clone(all[i].Secrets)
		if changed, err := do(&all[i]); err != nil || !changed {
			return nil, err
		}
		return all, nil
	})
}

// change replaces the sinks by next's result; nil changes nothing. next may change the slice that it gets.
func (a *sinkAdmin) change(
	ctx context.Context, who, note string, next func([]notify.Sink) ([]notify.Sink, error),
) error {
	err := a.sinks.update(ctx, adjustmentBy(who, note), func(now known[[]notify.Sink]) (*[]notify.Sink, error) {
		changed, err := next(slices.Clone(*now.value))
		if err != nil || changed == nil {
			return nil, err
		}
		return &changed, nil
	})
	if err == nil {
		end := a.turns.take()
		a.asked = time.Time{}
		end()
		a.woken.notify()
	}
	return err
}
