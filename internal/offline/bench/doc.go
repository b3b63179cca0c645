// Package bench is the engine of `stint bench`: it drives a running server, measures it, and audits it.
//
// Every answer is entered into the ledger of its key. When the run ends, an audit compares the ledger with what the policy's
// limits allow. A server that admitted one unit too many fails the run, however fast it was.
//
// The package owns the load (closed loop, or open loop at a fixed rate), the callers with their connections, the latency
// histogram, the ledger and the verdict. It never decides what a limit admits: it computes bounds from the numbers of the
// policy, independently of package limit's arithmetic.
//
// A closed loop sends the next call as soon as the last one is answered: it finds the highest rate, and its latencies are
// those of a client that waits for its answers. An open loop sends at fixed instants, however late the answers are. It
// measures latencies from the instant at which a call should have been sent, so every call that waited behind a stall of the
// server shows it (the correction of coordinated omission).
//
// The generator usually shares the machine with the server, so it is cheap. Protocols json, connect and redis use one
// connection per caller, with hand-written reading and writing. Protocols grpc and stream share a few HTTP/2 connections of
// grpc-go; with stream, each caller keeps one CheckStream and sends its calls through it, one after the other. Protocol
// client is not a cheap generator but an object of measurement: package client as a program uses it, one client for all
// callers.
//
// Over the Redis protocol a batch is a pipeline. The work may be INCR: its audit checks that every counter holds the
// acknowledged increments. The same client puts the same work on a Redis: a Comparison runs both in turns and reports ratios,
// round by round. A Curve runs one plan with several values of one number, and Draw makes a chart of the points. MeasureFloor
// measures what disk and loopback allow. After a run, keys that do not expire are deleted.
//
// Run may be called concurrently; all goroutines that it starts end before it returns.
//
// An id such as S9 names a rule of docs/guarantees.md.
package bench
