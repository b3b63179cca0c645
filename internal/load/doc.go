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
// The generator shares the machine with the server in most uses, so it is built to be cheap: protocols json and
// connect use one keep-alive HTTP/1.1 connection per caller, written and read by hand, and protocol grpc shares a few
// HTTP/2 connections of grpc-go.
//
// Run may be called concurrently; it starts its goroutines and has ended them when it returns.
package load
