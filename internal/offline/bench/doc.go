// Package bench is the engine of `stint tool bench`: it drives a running server, measures it, and audits it.
//
// Every answer is entered into the ledger of its key. When the run ends, an audit compares the ledger with what the
// policy's limits allow. A server that admitted one unit too many fails the run, however fast it was.
//
// The package owns the load (closed loop, or open loop at a fixed rate), the latency histogram, the ledger and the
// verdict. It never decides what a limit admits: it computes bounds from the numbers of the policy, independently of
// package limit's arithmetic.
//
// A closed loop sends the next call as soon as the last one is answered: it finds the highest rate, and its latencies
// are those of a client that waits for its answers. An open loop sends at fixed instants, however late the answers are.
// It measures latencies from the instant at which a call should have been sent, so every call that waited behind a
// stall of the server shows it (the correction of coordinated omission).
//
// The way into the servers is a Port. This package has the one of stint's API, through the clients that programs use:
// connect-go for JSON, binary messages, gRPC and CheckStream, and package client. The generator usually shares the
// machine with the server, so its own processor time is in the report. The program in tools/bench adds the Redis
// protocol, comparisons with a Redis, and curves. MeasureFloor measures the limits of disk and loopback.
//
// Run and Drive may be called concurrently; all goroutines that they start end before they return.
//
// An id such as S9 names a rule of docs/guarantees.md.
package bench
