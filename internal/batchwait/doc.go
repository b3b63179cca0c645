// Package batchwait decides how long a batch waits for the callers that were just answered. A commit, or a call to
// another node, costs about the same for any number of requests, and most callers ask again as soon as they are
// answered. Without a wait, the first caller to return gets a batch of its own, with all others waiting behind it, and
// so on forever: two groups take turns, and a batch holds half as many requests as it could.
//
// The package owns only what it has learned about one stream of batches. The queues of the Redis port use it. Actors do
// not, although they make batches in the same way: their callers arrive one by one over many queues and nodes, and with
// this rule gRPC and JSON were a tenth slower than with the actors' own rule (actor, pace).
//
// It knows no clock, no timer and no request. Times are passed in, and the caller does the waiting.
package batchwait
