package trace

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/shard"
)

// check is the span of a decision, on the node that received it or on the shard's owner. It is a shard.Trace.
type check struct {
	tracer *Tracer
	span   oteltrace.Span
	ended  time.Time // when the requests had their results; zero before
}

// Context implements shard.Trace.
func (k *check) Context() shard.TraceContext {
	at := k.span.SpanContext()
	return shard.TraceContext{ID: at.TraceID(), Span: at.SpanID()}
}

// Reached implements shard.Trace.
func (k *check) Reached(step shard.TraceStep, at time.Time) {
	k.span.AddEvent(step.String(), oteltrace.WithTimestamp(at))
}

// Decided records that the requests of a check have their results now. The event of the call ends its span.
func Decided(of shard.Trace) {
	if k, ok := of.(*check); ok {
		k.ended = k.tracer.config.Now()
	}
}

// describe sets a span's attributes for requests that were decided together: all of a single request, only the number
// of several.
func (t *Tracer) describe(k *check, e *decisions.Event, a *decisions.Asked) {
	r, result := &a.Stored[0], &a.Results[0]
	var attrs []attribute.KeyValue
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, attribute.String(name, value))
		}
	}
	namespace := cmp.Or(r.Namespace, shard.DefaultNamespace)
	add("stint.namespace", namespace)
	add("stint.policy", a.Policy())
	defer func() { k.span.SetAttributes(attrs...) }()
	if len(a.Requests) > 1 {
		denied, failed := 0, 0
		for i := range a.Results {
			if a.Denied(i) {
				denied++
			} else if a.Results[i].Err != nil {
				failed++
			}
		}
		attrs = append(attrs, attribute.Int("stint.checks", len(a.Requests)), attribute.Int("stint.denied", denied),
			attribute.Int("stint.failed", failed))
		return
	}
	if len(r.Entries) > 0 && r.Entries[0].Key != "" {
		hash, _ := t.config.HideKey(namespace, r.Entries[0].Key)
		add("stint.key_hash", hash)
	}
	if result.Err != nil {
		code := e.CodeOf(result.Err)
		add("error.type", code)
		blame(k.span, code)
		return
	}
	d := &result.Decision
	add("stint.decision", outcome(r, d))
	by := decisions.DeniedBy(d)
	if len(by) > 0 && slices.ContainsFunc(r.Entries, func(e shard.Entry) bool { return e.Limits != nil }) {
		by = []string{decisions.Inline} // the sender of the limits has named them
	}
	add("stint.denied_by", strings.Join(by, ","))
	if left := decisions.Remaining(d); left != nil {
		attrs = append(attrs, attribute.Int64("stint.remaining", int64(min(*left, 1<<63-1))))
	}
	if d.Position != (shard.Position{}) {
		add("stint.shard", d.Position.Shard.String())
	}
	attrs = append(attrs, attribute.Bool("stint.cached", d.Repeated()), attribute.Bool("stint.leased", d.Leased()),
		attribute.Bool("stint.replayed", d.Replayed))
}

// outcome is the outcome of a decision as in the metrics, also for decisions that these do not count.
func outcome(r *shard.Request, d *shard.Decision) string {
	switch r.Op {
	case shard.Get, shard.ReadTally:
		return "read"
	case shard.Tally:
		return "counted"
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.CorrectUsage:
		return "adjusted"
	}
	return decisions.Outcome(r, d)
}
