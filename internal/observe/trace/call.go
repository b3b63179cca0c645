package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/stint-io/stint/shard"
)

// Fate says whether a call is followed.
type Fate uint8

// The fates of a call.
const (
	Unfollowed Fate = iota
	Followed
	Undecided // it is a root that the dice did not choose: Late may follow it once it is denied
)

// Call is a call that is followed. Its checks may be made concurrently; End ends it.
type Call struct {
	tracer *Tracer
	id     [16]byte
	parent [8]byte // zero: it is a root
	span   [8]byte
	began  time.Time // zero: as End says

	mu     sync.Mutex
	checks []*Check
	ended  bool
}

// Incoming begins a call with these traceparent headers, if it is to be followed. Several headers are none.
func (t *Tracer) Incoming(headers []string) (*Call, Fate) {
	if t == nil {
		return nil, Unfollowed
	}
	if len(headers) == 1 {
		if parent, sampled, ok := Parse(headers[0]); ok {
			if !sampled {
				return nil, Unfollowed
			}
			return &Call{tracer: t, id: parent.ID, parent: parent.Span, span: newSpan(), began: t.config.Now()}, Followed
		}
	}
	if chosen(t.roots) {
		return &Call{tracer: t, id: newTrace(), span: newSpan(), began: t.config.Now()}, Followed
	}
	return nil, Undecided
}

// Batch begins the call of one batch of a stream, of which Incoming has said this; nil: it is not followed.
func (t *Tracer) Batch(stream *Call, fate Fate) *Call {
	switch {
	case t == nil || fate == Unfollowed:
		return nil
	case stream != nil && stream.parent != [8]byte{}:
		return &Call{tracer: t, id: stream.id, parent: stream.parent, span: newSpan(), began: t.config.Now()}
	}
	call, _ := t.Incoming(nil)
	return call
}

// Late begins a root after it was denied, by chance; nil: it is not followed. End says when it began.
func (t *Tracer) Late() *Call {
	if t == nil || !chosen(t.denials) {
		return nil
	}
	return &Call{tracer: t, id: newTrace(), span: newSpan()}
}

// TraceID is the id of the trace in hex; "" if the call is not followed.
func (c *Call) TraceID() string {
	if c == nil {
		return ""
	}
	return hex.EncodeToString(c.id[:])
}

// Check begins the span of what is decided.
func (c *Call) Check() *Check {
	k := &Check{tracer: c.tracer, id: c.id, parent: c.span, span: newSpan(), name: "ratelimit.check", kind: tracepb.Span_SPAN_KIND_INTERNAL}
	if !c.began.IsZero() {
		k.began = c.tracer.config.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.checks) < checksMost {
		c.checks = append(c.checks, k)
	}
	return k
}

// Bounds of one call.
const (
	checksMost = 32
	eventsMost = 64
)

// Answer is the end of a call.
type Answer struct {
	System string // "grpc", "connectrpc", "redis" or "gate"
	Method string // as in metrics; a slash before it is left out
	Code   string // "ok", or the code of the error
	Began  time.Time
	Caller string // the name of the token or role; "": none
	Calls  int    // commands of a round of Redis commands; 0 and 1 are not told
}

// End ends the call and sends its spans. It does nothing after the first time.
func (c *Call) End(a Answer) {
	now := c.tracer.config.Now()
	c.mu.Lock()
	checks, again := c.checks, c.ended
	c.ended = true
	c.mu.Unlock()
	if again {
		return
	}
	if c.began.IsZero() {
		c.began = a.Began
	}
	method := strings.Trim(a.Method, "/")
	span := &tracepb.Span{TraceId: c.id[:], SpanId: c.span[:], Name: method, Kind: tracepb.Span_SPAN_KIND_SERVER,
		Flags: 1, StartTimeUnixNano: nanos(c.began), EndTimeUnixNano: nanos(now)}
	if c.parent != [8]byte{} {
		span.ParentSpanId = c.parent[:]
		span.Flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	status := a.Code
	if a.System == "grpc" {
		status = strings.ToUpper(status)
	}
	span.Attributes = []*commonpb.KeyValue{text("rpc.system.name", a.System), text("rpc.method", method), text("rpc.response.status_code", status)}
	if a.Code != "ok" {
		span.Attributes = append(span.Attributes, text("error.type", status))
		span.Status = statusOf(a.Code)
	}
	if a.Caller != "" {
		span.Attributes = append(span.Attributes, text("stint.caller", a.Caller))
	}
	if a.Calls > 1 {
		span.Attributes = append(span.Attributes, number("stint.commands", int64(a.Calls)))
	}
	spans := []*tracepb.Span{span}
	for _, k := range checks {
		spans = append(spans, k.spanOf(c.began, now))
	}
	c.tracer.send(spans)
}

// ourFaults are the codes that make a span an error. The others are the caller's. "aborted" is among them, which OpenTelemetry leaves
// out: it says that the call may have been counted.
var ourFaults = []string{"unknown", "deadline_exceeded", "unimplemented", "internal", "unavailable", "data_loss", "aborted", "TRYAGAIN"}

func statusOf(code string) *tracepb.Status {
	if slices.Contains(ourFaults, code) {
		return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	return nil
}

// Decision is what a check came to.
type Decision struct {
	Namespace, Policy, Key string // of the first entry; the key as it is stored
	Outcome                string // as in metrics; "" with an error
	DeniedBy               []string
	Remaining              uint64 // of the limit with least left
	HasRemaining           bool
	Shard                  string // "" if nobody was asked
	Cached, Replayed       bool
	Code                   string // of the error; "": none
	Checks, Denied, Failed int    // of a batch; Checks is 0 for a single one
}

// Check is the span of what is decided, on the node that was asked or on the shard's owner. It is a shard.Trace.
type Check struct {
	tracer *Tracer
	id     [16]byte
	parent [8]byte
	span   [8]byte
	name   string
	kind   tracepb.Span_SpanKind
	began  time.Time // zero: when its call began

	mu     sync.Mutex
	ended  time.Time // zero: it is under way
	events []*tracepb.Span_Event
	attrs  []*commonpb.KeyValue
	status *tracepb.Status
}

var _ shard.Trace = (*Check)(nil)

// Context implements shard.Trace.
func (k *Check) Context() shard.TraceContext { return shard.TraceContext{ID: k.id, Span: k.span} }

// Reached implements shard.Trace.
func (k *Check) Reached(step shard.TraceStep, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended.IsZero() && len(k.events) < eventsMost {
		k.events = append(k.events, &tracepb.Span_Event{Name: step.String(), TimeUnixNano: nanos(at)})
	}
}

// End ends the span with what was decided.
func (k *Check) End(d Decision) {
	var attrs []*commonpb.KeyValue
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, text(name, value))
		}
	}
	add("stint.namespace", d.Namespace)
	add("stint.policy", d.Policy)
	if d.Key != "" {
		if hash, ok := k.tracer.config.HideKey(d.Namespace, d.Key); ok {
			add("stint.key_hash", hash)
		}
	}
	add("stint.decision", d.Outcome)
	add("stint.denied_by", strings.Join(d.DeniedBy, ","))
	if d.HasRemaining {
		attrs = append(attrs, number("stint.remaining", int64(min(d.Remaining, 1<<63-1))))
	}
	add("stint.shard", d.Shard)
	if d.Code == "" && d.Checks == 0 {
		attrs = append(attrs, yesNo("stint.cached", d.Cached), yesNo("stint.replayed", d.Replayed))
	}
	if d.Checks > 0 {
		attrs = append(attrs, number("stint.checks", int64(d.Checks)), number("stint.denied", int64(d.Denied)), number("stint.failed", int64(d.Failed)))
	}
	add("error.type", d.Code)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended, k.attrs, k.status = k.tracer.config.Now(), attrs, statusOf(d.Code)
}

// spanOf returns the span. One that is still under way has been given up, and ends with its call.
func (k *Check) spanOf(began, ended time.Time) *tracepb.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.began.IsZero() {
		k.began = began
	}
	if k.ended.IsZero() {
		k.ended = ended
	}
	return &tracepb.Span{TraceId: k.id[:], SpanId: k.span[:], ParentSpanId: k.parent[:], Name: k.name, Kind: k.kind, Flags: 1,
		StartTimeUnixNano: nanos(k.began), EndTimeUnixNano: nanos(k.ended), Attributes: k.attrs, Events: k.events, Status: k.status}
}

func nanos(at time.Time) uint64 { return uint64(at.UnixNano()) }

// newTrace draws the id of a trace, which is never zero.
func newTrace() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id
}

// newSpan draws the id of a span, which is never zero.
func newSpan() (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
