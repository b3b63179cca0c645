package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/shard"
)

// sinkSender is what the dispatcher of events and the pusher of bills share: the shards of this node, and the way to
// the sinks. Each has one of its own, and the goroutine that runs it owns what is below logger.
type sinkSender struct {
	now      func() time.Time
	view     *clusterView
	replicas *replicaSet
	decide   func(context.Context, []shard.Request) []shard.Result
	sinks    *sinkAdmin
	poster   *notify.Poster // used by both, and for the keys of gates; the dispatcher closes it
	pace     notify.Pace
	metrics  *metrics.Metrics
	logger   *slog.Logger

	ledger   string    // what ids are made with; "": not read yet, and nothing can be sent
	readAt   time.Time // when the sinks were read that learnSinks returned last
	throttle loglimit.Limit
}

// disable disables a sink, not one that was made later under its name, and reports whether it is.
func (o *sinkSender) disable(ctx context.Context, s *notify.Sink, why string) (disabled bool) {
	o.logger.Warn("a sink is disabled", "sink", s.Name, "why", why)
	within, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	err := o.sinks.disable(within, s.Name, why, localActor, s.Is)
	if err != nil && ctx.Err() == nil {
		o.logger.Warn("a sink could not be disabled; it is tried again", "sink", s.Name, "error", err)
	}
	return err == nil
}

// learnSinks returns the sinks as they were read at most maxAge ago, if it has not returned them since they were read,
// and takes the ledger. While they cannot be read, what is known of them holds. The caller changes no sink of it.
func (o *sinkSender) learnSinks(ctx context.Context, maxAge time.Duration) (sinks []notify.Sink, anew bool) {
	read, err := o.sinks.readRecently(ctx, maxAge)
	if err != nil && ctx.Err() == nil && mayComplain(&o.throttle, "sinks", o.now()) {
		o.logger.Warn("the sinks cannot be read: events and bills wait", "error", err)
	}
	if read.Equal(o.readAt) {
		return nil, false
	}
	o.readAt, o.ledger = read, *o.sinks.documents.bills.now().value
	return *o.sinks.sinks.now().value, true
}
