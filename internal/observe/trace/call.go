package trace

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/shard"
)

// Call is a call that may be traced. The zero value is not, and costs nothing. It is not for concurrent use.
type Call struct {
	tracer *Tracer               // nil if it is never traced
	remote oteltrace.SpanContext // the caller's span; if not valid, the call is a root
	span   oteltrace.Span        // nil if the root was not sampled; it still may be if it is denied
	checks int                   // begun so far
}

// Incoming begins a call with these traceparent headers. Several headers count as none.
func (t *Tracer) Incoming(headers []string) (c Call) {
	if t == nil {
		return c
	}
	if len(headers) == 1 {
		if parent, sampled, ok := Parse(headers[0]); ok {
			if sampled {
				c = Call{tracer: t, remote: remote(parent)}
				c.begin(t.config.Now())
			}
			return c
		}
	}
	if c.tracer = t; chosen(t.config.Roots) {
		c.begin(t.config.Now())
	}
	return c
}

// Batch begins the call of one batch of a stream.
func (c *Call) Batch() (batch Call) {
	if c.tracer == nil || !c.remote.IsValid() {
		return c.tracer.Incoming(nil)
	}
	batch = Call{tracer: c.tracer, remote: c.remote}
	batch.begin(c.tracer.config.Now())
	return batch
}

// begin begins the span of the call. Without it the call is not traced.
func (c *Call) begin(at time.Time) {
	c.span = c.tracer.start(c.remote, "call", oteltrace.SpanKindServer, at)
}

// TraceID returns the id of the trace in hex, or "" if the call is not traced.
func (c *Call) TraceID() string {
	if c.span == nil {
		return ""
	}
	id := c.span.SpanContext().TraceID()
	return hex.EncodeToString(id[:])
}

// checksMost bounds the checks of one call.
const checksMost = 32

// Check begins the span of a decision, for shard.Request.Trace and decisions.Asked.Span. It returns nil if the call is
// not traced.
func (c *Call) Check() shard.Trace {
	if c.span == nil || c.checks == checksMost {
		return nil
	}
	return c.check(c.tracer.config.Now())
}

// check begins the span of a check of a call that has a span.
func (c *Call) check(at time.Time) *check {
	c.checks++
	span := c.tracer.start(c.span.SpanContext(), "ratelimit.check", oteltrace.SpanKindInternal, at)
	return &check{tracer: c.tracer, span: span}
}

// Ended implements decisions.Listener: it ends the spans of a call, and sets the event's TraceID, for the listeners
// after it.
func (t *Tracer) Ended(e *decisions.Event) {
	c, _ := e.Span.(*Call)
	if t == nil || c == nil || c.tracer == nil {
		return
	}
	late := c.span == nil
	if late {
		if !e.Denied() || !chosen(t.config.Denials) {
			return
		}
		c.begin(e.Began)
	}
	e.TraceID = c.TraceID()
	now, asked := t.config.Now(), e.Questions()
	for i := range asked {
		a := &asked[i]
		k, _ := a.Span.(*check)
		if late && c.checks < checksMost {
			k = c.check(e.Began)
		}
		if k == nil || len(a.Requests) == 0 {
			continue
		}
		if k.ended.IsZero() {
			k.ended = now
		}
		t.describe(k, e, a)
		k.span.End(oteltrace.WithTimestamp(k.ended))
	}
	method := strings.Trim(e.Method, "/")
	status := e.Code
	if e.System == "grpc" {
		status = strings.ToUpper(status)
	}
	attrs := []attribute.KeyValue{attribute.String("rpc.system.name", e.System), attribute.String("rpc.method", method),
		attribute.String("rpc.response.status_code", status)}
	if e.Code != "ok" {
		attrs = append(attrs, attribute.String("error.type", status))
	}
	if e.Caller != "" {
		attrs = append(attrs, attribute.String("stint.caller", e.Caller))
	}
	if commands := e.CommandCount(); commands > 1 {
		attrs = append(attrs, attribute.Int("stint.commands", commands))
	}
	c.span.SetName(method)
	c.span.SetAttributes(attrs...)
	blame(c.span, e.Code)
	c.span.End(oteltrace.WithTimestamp(now))
}

// ourFaults are the codes that make a span an error. The others are the caller's. They include "aborted", unlike
// OpenTelemetry's list: the call may have been counted.
var ourFaults = []string{"unknown", "deadline_exceeded", "unimplemented", "internal", "unavailable", "data_loss",
	"aborted", "TRYAGAIN"}

// blame makes a span an error if its code is.
func blame(span oteltrace.Span, code string) {
	if slices.Contains(ourFaults, code) {
		span.SetStatus(codes.Error, "")
	}
}
