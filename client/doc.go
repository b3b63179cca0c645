// Package client is the Go client of stint. It knows which node owns which key and asks that node at once, and it sends
// what many goroutines ask at the same time in one call: a program that checks one key per request gets the rate of
// batches without doing anything for it.
//
//	limits, err := client.New(client.Config{Addresses: []string{"http://10.0.0.1:7400", "http://10.0.0.2:7400"}})
//	defer limits.Close()
//	d, err := limits.Check(ctx, client.Entry("login", "user:42"))
//	if err != nil {
//		return err // neither yes nor no: see Error
//	}
//	if !d.Allowed {
//		return fmt.Errorf("try again in %v", d.RetryAfter.AsDuration())
//	}
//
// An error is never a denial, and a denial is never an error. Error.MaybeApplied tells what may have been counted from
// what certainly was not; the latter is asked again, at another node too, until the caller's context ends, and so is the
// former if the request has an idempotency id.
//
// The package imports nothing of the server: no raft, no disk.
package client
