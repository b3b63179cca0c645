package trace

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stint-io/stint/shard"
)

// Handler decides requests that another node has forwarded (hop.Handler).
type Handler = func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result

// Owner traces the requests that other nodes trace: each trace gets a span here, a child of theirs.
func (t *Tracer) Owner(next Handler) Handler {
	if t == nil {
		return next
	}
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		var followed map[shard.TraceContext]*check // by the span above; nearly always nil
		for i := range requests {
			if requests[i].Trace == nil {
				continue
			}
			parent := requests[i].Trace.Context()
			k := followed[parent]
			if k == nil {
				span := t.start(remote(parent), "ratelimit.decide", oteltrace.SpanKindServer, t.config.Now())
				k = &check{tracer: t, span: span}
				k.span.SetAttributes(attribute.String("stint.shard", id.String()))
				if followed == nil {
					followed = make(map[shard.TraceContext]*check, 1)
				}
				followed[parent] = k
			}
			requests[i].Trace = k
		}
		results := next(ctx, hops, id, requests)
		for i := range results {
			k, _ := requests[i].Trace.(*check)
			if k == nil || !k.ended.IsZero() {
				continue // it has ended with its first request
			}
			if results[i].Err != nil { // the node that received it reports its fate
				k.span.SetAttributes(attribute.String("error.type", "refused"))
			}
			Decided(k)
			k.span.End(oteltrace.WithTimestamp(k.ended))
		}
		return results
	}
}
