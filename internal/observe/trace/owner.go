package trace

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stint-io/stint/shard"
)

// Handler decides requests that another node has forwarded (hop.Handler).
type Handler = func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result

// followedRequest is a request that is followed here, and the ones after it that have the same span above.
type followedRequest struct {
	parent shard.TraceContext
	first  int // its index
	check  *check
}

// Owner follows the requests of other nodes that are followed there: each trace gets a span here, a child of theirs.
func (t *Tracer) Owner(next Handler) Handler {
	if t == nil {
		return next
	}
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		var followed []followedRequest // nearly always nil
		for i := range requests {
			if requests[i].Trace == nil {
				continue
			}
			parent := requests[i].Trace.Context()
			at := slices.IndexFunc(followed, func(f followedRequest) bool { return f.parent == parent })
			if at < 0 {
				span := t.start(remote(parent), "ratelimit.decide", oteltrace.SpanKindServer, t.config.Now())
				at, followed = len(followed), append(followed, followedRequest{parent, i, &check{tracer: t, span: span}})
			}
			requests[i].Trace = followed[at].check
		}
		results := next(ctx, hops, id, requests)
		for _, f := range followed {
			span := f.check.span
			span.SetAttributes(attribute.String("stint.shard", id.String()))
			if results[f.first].Err != nil { // the node that was asked says what becomes of it
				span.SetAttributes(attribute.String("error.type", "refused"))
			}
			span.End(oteltrace.WithTimestamp(t.config.Now()))
		}
		return results
	}
}
