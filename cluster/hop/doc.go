// Package hop forwards requests to the node that owns them, through the peer port.
//
// # The hop
//
// A Hop forwards requests to the node that owns them, over one connection to each node. All calls that wait when the
// connection becomes free go into one frame, so frames grow with the load and no timer delays a request. The remaining
// time until the caller's deadline travels with each call. At the receiving end, calls of one frame to one shard with
// the same operation and a similar remaining time become one submission. Calls in flight are bounded, and a shard that
// does not answer takes at most half of the room. Both ends send heartbeats; a connection that is silent for 2 s is
// given up. When a connection breaks, calls that it had not sent were certainly not executed; calls that it had sent
// have an unknown outcome. A stopping node answers the calls that it began and names those that it did not begin. A
// request is forwarded at most twice. Hop.Stats counts calls, requests and frames.
//
// # Concurrency
//
// A Hop may be used by any number of goroutines. A Handler is called concurrently.
//
// Ids such as X4 and R20 name rules of docs/rules.md.
package hop
