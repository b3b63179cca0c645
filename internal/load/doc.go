// Package load is the engine of `stint bench`: it drives a running server, measures it, and audits it.
//
// Audits: every answer is entered into a ledger of its key, and when the run ends the ledger is compared with what the
// policy's limits allow. A server that admitted one unit too many fails the run, however fast it was.
//
// It owns the load (closed loop, or open loop at a fixed rate), the callers with their connections, the latency
// histogram, the ledger and the verdict. It never decides what a limit admits: it computes bounds from the numbers of
// the policy, independently of package limit's arithmetic.
//
// A closed loop asks again as soon as it was answered: it finds the highest rate, and its latencies are those of a
// polite client. An open loop asks at fixed instants whatever the answers do. Its latencies are measured from the
// instant at which a call should have been sent, so a stall of the server is seen by every call that waited behind it
// (the correction of coordinated omission).
//
// The generator shares the machine with the server in most uses, so it is built to be cheap: protocols json, connect and
// redis use one connection per caller, written and read by hand, and protocols grpc and stream share a few HTTP/2
// connections of grpc-go. With stream each caller keeps a CheckStream, by which its calls go, one after the other. Protocol
// client is no cheap generator but a thing to be measured: package client as a program uses it, one for all callers.
//
// Over the Redis protocol a batch is a pipeline, and the work may be INCR, whose audit is that every counter holds what was
// acknowledged. The same client puts the same work on a Redis: a Comparison runs both in turns and answers ratios, round
// by round. A Curve runs one plan for several values of one number, and Draw makes a picture of what it measured.
// MeasureFloor says what disk and loopback allow. Keys that no window ends are deleted behind a run.
//
// Run may be called concurrently; it starts its goroutines and has ended them when it returns.
package load
