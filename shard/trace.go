package shard

import "time"

// Trace traces a request. It does not affect the decision, and is in no record. All methods may be called concurrently,
// and none blocks.
type Trace interface {
	// Context returns the context that another node needs to trace the request.
	Context() TraceContext
	// Reached records when the request reached a step on its way.
	Reached(step TraceStep, at time.Time)
}

// TraceContext is the position of a traced request in its trace: the ids of the trace and of the span above, as in the
// W3C's Trace Context. Neither is zero.
type TraceContext struct {
	ID   [16]byte
	Span [8]byte
}

// TraceStep is a step of a request on its way through the shard's owner.
type TraceStep uint8

// The steps.
const (
	TraceQueued    TraceStep = iota // it waits for a batch
	TraceProposed                   // it was decided, and its entry is on its way to a majority
	TraceInstalled                  // a majority has the entry on disk, and the answer may leave
)

// String returns the name of the step in a trace.
func (s TraceStep) String() string { return [...]string{"queued", "proposed", "installed"}[s] }

// receivedTrace is the trace of a request that another node traces. Its steps are dropped unless this node traces the
// request too.
type receivedTrace TraceContext

// Context implements Trace.
func (t receivedTrace) Context() TraceContext { return TraceContext(t) }

// Reached implements Trace.
func (t receivedTrace) Reached(TraceStep, time.Time) {}
