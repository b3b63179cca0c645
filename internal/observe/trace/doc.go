// Package trace records calls as spans of OpenTelemetry, and sends them to a collector. It is the only door to the
// libraries of OpenTelemetry; their SDK makes and sends the spans. Sampling is its own, so that a call that is not
// traced costs one branch, and so is the bound on waiting spans, which it counts.
//
// A traced call has these spans:
//
//	stint.v1.LimitService/Check   SERVER: the call. A batch, a round of Redis commands, and a question at a gate are one span each
//	  ratelimit.check             what was decided. Its events say when its requests were queued, proposed and installed
//	    ratelimit.decide          SERVER, on the node that owns the shard, if that is another one; it has the events then
//
// It does not know how anything is decided. The attributes are those of OpenTelemetry's conventions for RPC, and
// stint.*: docs/observability.md lists them. They never contain a key, only its keyed hash. A denial is no error.
//
// # Sampling
//
// A call with a valid traceparent header is traced if its caller is (parent-based). A call without one is the root of a
// trace at random (Config.Roots). The choice precedes the decision, so that its trace crosses to the shard's owner. A
// root that was denied gets a second chance afterwards (Config.Denials); then it has no spans of other nodes, and no
// events.
//
// # Bounds
//
// Nothing here delays or fails a call. At most 4,096 ended spans wait for the one goroutine that sends them, 512 spans
// or a second at a time. Beyond that they are dropped and counted, as are those that the collector refuses or does not
// take within 10 s. Close sends the waiting spans, until its context ends.
//
// A nil *Tracer is off. All functions and methods may be called concurrently.
package trace
