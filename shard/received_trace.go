package shard

import "time"

// receivedTrace is the trace of a request that another node traces. Its steps are dropped unless this node traces the
// request too.
type receivedTrace TraceContext

// Context implements Trace.
func (t receivedTrace) Context() TraceContext { return TraceContext(t) }

// Reached implements Trace.
func (t receivedTrace) Reached(TraceStep, time.Time) {}
