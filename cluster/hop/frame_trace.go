package hop

import (
	"time"

	"github.com/stint-io/stint/shard"
)

// The trace of a request that is followed takes 26 bytes, as in the binary form of the W3C's traceparent: version 0, the ids of the
// trace and of the span above, and the flag that says that it is followed. Nothing else crosses.
const (
	traceVersion = 0
	traceSampled = 1
	traceBytes   = 1 + 16 + 8 + 1
)

func appendTrace(b []byte, c shard.TraceContext) []byte {
	b = append(b, traceVersion)
	b = append(append(b, c.ID[:]...), c.Span[:]...)
	return append(b, traceSampled)
}

func (r *frameReader) trace() shard.Trace {
	if len(r.rest) < traceBytes || r.rest[0] != traceVersion || r.rest[traceBytes-1] != traceSampled {
		r.fail()
		return nil
	}
	var c shard.TraceContext
	copy(c.ID[:], r.rest[1:])
	copy(c.Span[:], r.rest[1+len(c.ID):])
	r.rest = r.rest[traceBytes:]
	if c.ID == [16]byte{} || c.Span == [8]byte{} {
		r.fail()
		return nil
	}
	return receivedTrace(c)
}

// receivedTrace is the trace of a request that another node follows. Until somebody follows it here, its steps go unnoticed.
type receivedTrace shard.TraceContext

// Context implements shard.Trace.
func (t receivedTrace) Context() shard.TraceContext { return shard.TraceContext(t) }

// Reached implements shard.Trace.
func (t receivedTrace) Reached(shard.TraceStep, time.Time) {}
