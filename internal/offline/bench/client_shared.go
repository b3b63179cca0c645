package bench

import (
	"context"
	"errors"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	stint "github.com/stint-io/stint/client"
)

// sharedClient is one caller of the Go client, which all callers share. The client retries checks that were certainly not
// counted, so such a check fails only when its time is over.
type sharedClient struct {
	limits *stint.Client
	plan   Plan
}

func (s sharedClient) check(keys []uint32, fates []fate) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.plan.Timeout)
	defer cancel()
	if len(keys) > 1 {
		return s.checkBatch(ctx, keys, fates)
	}
	d, err := s.limits.Check(ctx, s.request(keys[0]))
	var failure *stint.Error
	if errors.As(err, &failure) {
		return refusedByClient(failure.Code, failure.Message, failure.MaybeApplied)
	}
	fates[0] = decided(d)
	return err
}

func (s sharedClient) checkBatch(ctx context.Context, keys []uint32, fates []fate) error {
	requests := make([]*stintv1.CheckRequest, len(keys))
	for i, key := range keys {
		requests[i] = s.request(key)
	}
	var first error
	for i, result := range s.limits.CheckBatch(ctx, requests) {
		if d := result.GetDecision(); d != nil {
			fates[i] = decided(d)
			continue
		}
		f := result.GetFailure()
		failure := refusedByClient(f.GetCode(), f.GetMessage(), f.GetMaybeApplied())
		if fates[i] = failure.fate; first == nil {
			failure.partial = true
			first = failure
		}
	}
	return first
}

// request returns a new check of a key, as programs do: the client may still send it after its time is over.
func (s sharedClient) request(key uint32) *stintv1.CheckRequest {
	request := &stintv1.CheckRequest{Namespace: s.plan.Namespace, Entries: make([]*stintv1.Entry, s.plan.Entries)}
	for i := range request.Entries {
		entry := &stintv1.Entry{Policy: s.plan.Policy, Key: s.plan.entryKey(key, i), Tier: s.plan.Tier}
		if s.plan.Cost != 1 {
			entry.Cost = &s.plan.Cost
		}
		request.Entries[i] = entry
	}
	return request
}

func decided(d *stintv1.Decision) fate {
	if d.GetAllowed() {
		return allowed
	}
	return denied
}

// refusedByClient returns the error of a check by the client's statement of what was counted.
func refusedByClient(code, message string, maybeApplied bool) *callError {
	e := &callError{code: code, message: message, fate: failed}
	if maybeApplied {
		e.fate = unknown
	}
	return e
}

// close does nothing: the shared client belongs to the run.
func (sharedClient) close() {}
