package trace

import (
	"context"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/stint-io/stint/shard"
)

// Handler decides requests that another node has forwarded (hop.Handler).
type Handler = func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result

// Owner follows the requests of other nodes that are followed there: each trace gets a span here, a child of theirs.
func (t *Tracer) Owner(next Handler) Handler {
	if t == nil {
		return next
	}
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		for i := range requests {
			if requests[i].Trace != nil {
				return t.decide(ctx, next, hops, id, requests)
			}
		}
		return next(ctx, hops, id, requests)
	}
}

func (t *Tracer) decide(ctx context.Context, next Handler, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	followed := map[shard.TraceContext]*Check{}
	of := make([]*Check, len(requests))
	for i := range requests {
		if requests[i].Trace == nil {
			continue
		}
		parent := requests[i].Trace.Context()
		k := followed[parent]
		if k == nil {
			k = &Check{tracer: t, id: parent.ID, parent: parent.Span, span: newSpan(), name: "ratelimit.decide",
				kind: tracepb.Span_SPAN_KIND_SERVER, began: t.config.Now()}
			followed[parent] = k
		}
		requests[i].Trace, of[i] = k, k
	}
	results := next(ctx, hops, id, requests)
	spans := make([]*tracepb.Span, 0, len(followed))
	for i, k := range of {
		if k == nil || followed[shard.TraceContext{ID: k.id, Span: k.parent}] == nil {
			continue // it has ended with its first request
		}
		delete(followed, shard.TraceContext{ID: k.id, Span: k.parent})
		d := Decision{Shard: id.String()}
		if err := results[i].Err; err != nil {
			d.Code = "refused" // the node that was asked says what becomes of it
		}
		k.End(d)
		spans = append(spans, k.spanOf(k.began, k.began))
	}
	t.send(spans)
	return results
}
