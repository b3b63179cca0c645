// Package client is the Go client of stint. It sends each check straight to the node that owns the key, and sends the
// concurrent checks of many goroutines in one call. A program that checks one key per request therefore gets the
// throughput of batches without any work of its own.
//
//	limits, err := client.New(client.Config{Addresses: []string{"http://10.0.0.1:7400", "http://10.0.0.2:7400"}})
//	if err != nil {
//		return err
//	}
//	defer limits.Close()
//	d, err := limits.Check(ctx, client.Entry("login", "user:42"))
//	if err != nil {
//		return err // neither allowed nor denied: see Error
//	}
//	if !d.Allowed {
//		return fmt.Errorf("try again in %v", d.RetryAfter.AsDuration())
//	}
//
// An absent RetryAfter on a denial means that no wait helps.
//
// # Routing
//
// The client learns the owner of each shard from the nodes, every 5 s and after a failure. It asks the owner of the
// request's first key. It asks one of Config.Addresses while the owner is unknown, and for 10 s after the owner could
// not be reached. A wrong guess costs one hop: a node that does not own a key forwards the request. Settle and Get
// go to the first configured address, or to the next while the first cannot be reached, and after one that has not
// answered. A node cannot be reached either if its connection is silent for 2 s, not even answering a ping: it hangs,
// or is cut off.
//
// # TLS
//
// Addresses that begin with https:// are reached over TLS, and so are the owners learned from them. Config.TLS has the
// authorities and the certificate of a role. A node's certificate must name the address that the node announces, or all
// certificates the ServerName. An owner with a certificate that is not accepted counts as unreachable: the configured
// addresses are asked instead, and no request was sent.
//
// # Errors
//
// A denial is a Decision with Allowed false, never an error. An error is never a denial: the client does not turn a
// failure into "allowed" or "denied", so the caller decides what to do then. Every error of Check, Reserve, Settle and
// Get is an *Error. Its MaybeApplied distinguishes the two fates:
//
//	false  certainly not counted: the request was refused, no connection could be made, or the deadline passed before
//	true   counted once or not at all: the request was sent, and no answer says which
//
// # Retries and ids
//
// All calls retry until the caller's context ends or has no time left, with pauses that grow from 10 ms to 200 ms, and
// at another node if one cannot be reached:
//
//	unavailable, not MaybeApplied   always: nothing was counted
//	MaybeApplied, with an id        always: the cluster counts one id once
//	MaybeApplied, without an id     never: a retry could count twice
//	any other error                 never: a retry cannot help
//
// The id is the IdempotencyId of the check; the client draws none. A Settle needs none, unless it extends a hold: the
// same settlement sent again gets the same answer. Nor does a Get, which changes nothing. Wait draws one for each
// check. A context without a deadline gets Config.Timeout, 5 s unless it is set. MaybeApplied is true if any attempt
// may have been counted, not only the last.
//
// # Leases
//
// With Config.Leases, Check takes leases of keys that are checked often, where their policies allow it (lease), and
// spends them in memory: such an answer takes less than a microsecond, comes without a trip, and is never above the
// limit, as the cluster has counted the units before. It says so: Decision.Leased. Its limits are those of the lease's
// grant, it cannot be refunded, and all callers share it, so it must not be changed. Everything else is sent as without
// leases: a check with an id, a mode, several entries, limits of its own or an explanation; a cost above what is left
// of the lease; and each check while there is no lease, or a new one is asked for.
//
// The client asks for a lease of as many units as the key spends in two seconds, and returns what is left after 200 ms
// without a check, before a change of the key by hand that it sends, and on Close, so a program should call Close. What
// a process has not returned when it dies counts as spent. It stops spending at the end that the grant says, counted
// from before it asked, on a clock that runs on while the machine sleeps (on Linux), and on the wall clock, and at once
// if the wall clock is set back. No node sees these answers: metrics, top, watch and the decision log lack them.
//
// # Concurrency
//
// All methods may be called by any number of goroutines. At most 2 batches are under way to one node; the checks that
// arrive meanwhile wait for the next batch, of up to 1,000 checks. A check is sent at once when fewer than 2 batches
// are under way, so no check waits for a timer. A batch may take as long as the longest deadline among its checks, and
// 10 s at most.
//
// # Closing
//
// Close returns all leases, within 2 s, stops the background work and waits for it. Checks under way end with an error,
// and a later call gets the code "canceled". Close does not end a Reserve, Settle or Get that is under way; its context
// does.
//
// The package is a public API, as are the middlewares below it, limit, policy and stinttest; all others are not. It
// imports no server code: no Raft, no storage.
package client
