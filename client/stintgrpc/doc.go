// Package stintgrpc limits the methods of a grpc-go server: a call is counted before its handler runs, and a denied one
// gets RESOURCE_EXHAUSTED with a RetryInfo detail. A stream is counted when it opens.
//
//	perUser := stintgrpc.Entry("rpc", userOf)
//	server := grpc.NewServer(grpc.UnaryInterceptor(stintgrpc.Unary(limits, perUser)),
//		grpc.StreamInterceptor(stintgrpc.Stream(limits, perUser)))
//
//	denied       RESOURCE_EXHAUSTED, the reason of the policy, RetryInfo; retry-after and the policy's headers in the header
//	no key       INVALID_ARGUMENT: a KeyFunc found none, so nothing was counted
//	unknown      PERMISSION_DENIED: a policy with unknown_key: deny does not know the key
//	no decision  UNAVAILABLE, or with FailOpen the handler runs
//	our mistake  INTERNAL: a policy that does not exist, a token without the grant; FailOpen does not open for it
//
// Keys, retries and idempotency ids are as in package stinthttp. All values of the package may be used by any number of
// goroutines. The package is a public API.
package stintgrpc
