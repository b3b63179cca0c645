// Package stinthttp limits handlers of net/http: a request is counted before its handler runs, and a denied one gets
// 429. It also keeps an http.Client to a limit (Outbound).
//
//	limits, err := client.New(client.Config{Addresses: nodes})
//	if err != nil {
//		return err
//	}
//	defer limits.Close()
//	ip := stinthttp.ClientIP("10.0.0.0/8") // the proxies in front
//	login := stinthttp.Limit(limits, stinthttp.Entry("login-ip", ip), stinthttp.Entry("login", emailOf))
//	mux.Handle("POST /login", login(handler))
//
// Entries are counted together or not at all.
//
// # Answers
//
//	allowed     the handler runs; the response has the headers of the policies
//	denied      429 with Retry-After, the headers of the policies, Cache-Control: no-store and a problem document (RFC 9457)
//	challenge   403, if only limits with on_exceeded: challenge denied: a problem document with the code "challenge"
//	no key      400: a KeyFunc found none, so nothing was counted
//	unknown     403: a policy with unknown_key: deny does not know the key
//	no decision 503 with Retry-After, or with FailOpen the handler runs and the response has "Stint-Failed: open";
//	            503 for a new key without room (max_keys), which a client can cause, even with FailOpen
//	our mistake 500: a policy that does not exist, a token without the grant; FailOpen does not open for it
//
// OnDenied and OnError replace the answers.
//
// # Keys
//
// A key may be text that a client chose. An empty one is refused, as all clients that send none would share it. The
// characters % { } | = and controls are percent-encoded, since braces choose a shard, and the end of a key above 512
// bytes becomes its SHA-256.
//
// # Retries
//
// Each HTTP request gets a random idempotency id, so that the client can retry until there is a decision, and counts
// once. The id is never taken from the request, since an id that a client chooses would be a free pass. The cluster
// remembers each id for the policy's idempotency_retention, and an id bypasses deny_cache: see WithoutIDs.
//
// # Concurrency
//
// All values of the package may be used by any number of goroutines. The package is a public API.
package stinthttp
