// Package inbound is the common part of the middlewares of net/http, Connect and gRPC: it counts an incoming request
// before its handler runs.
//
//	Limiter   makes one check of a request's entries, and decides whether the request passes without a decision
//	Calls     does so for Connect and gRPC, and returns the kind of refusal for a call
//	Key       makes a key of text that a client may have chosen
//
// Everything is configuration that does not change, and may be used concurrently. The tests of the three kinds of
// servers are here, too.
package inbound
