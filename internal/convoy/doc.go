// Package convoy says how long a batch waits for the callers who were just answered. A commit, or a call to another node,
// costs about the same whatever it carries, and most callers ask again as soon as they are answered. The first one back
// would otherwise get a batch of its own, with all others waiting behind it, and so on for ever: two groups that take turns,
// half as many requests in a batch as there could be.
//
// What it owns: nothing but what it has learnt of one stream of batches. The lanes of the Redis port use it. Actors do not,
// although they make batches in the same way: their callers come one by one over many lanes and nodes, and with this rule
// gRPC and JSON were a tenth slower than with the actors' own (actor, pace).
//
// What it never knows: a clock, a timer, what a request is. Times are passed in; who asks does the waiting.
package convoy
