// Package stintconnect limits the procedures of a Connect server: a call is counted before its handler runs, and a
// denied one gets resource_exhausted with a RetryInfo detail. A stream is counted when it opens.
//
//	limited := stintconnect.Limit(limits, stintconnect.Entry("rpc", userOf))
//	mux.Handle(pingv1connect.NewPingServiceHandler(server, connect.WithInterceptors(limited)))
//
//	denied       resource_exhausted, the reason of the policy, RetryInfo; Retry-After and the policy's headers as metadata
//	no key       invalid_argument: a KeyFunc found none, so nothing was counted
//	unknown      permission_denied: a policy with unknown_key: deny does not know the key
//	no decision  unavailable, or with FailOpen the handler runs
//	our mistake  internal: a policy that does not exist, a token without the grant; FailOpen does not open for it
//
// Keys, retries and idempotency ids are as in package stinthttp. All values of the package may be used by any number of
// goroutines. The package is a public API.
package stintconnect
