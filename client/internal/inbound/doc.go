// Package inbound is what the middlewares of net/http, Connect and gRPC have in common: it counts a request that came in before
// its handler runs.
//
//	Limiter   makes one check of a request's entries, and says whether the request passes without a decision
//	Calls     does so for Connect and gRPC, and says with which kind of refusal a call is answered
//	Key       makes a key of text that a stranger may have chosen
//
// Everything is configuration that does not change, and may be used concurrently. The tests of the three kinds of servers are
// here, too.
package inbound
