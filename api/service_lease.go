package api

import (
	"context"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// holderLeast is the least length of a holder's name, in bytes: a short one is not drawn at random, so another life of
// the holder would have it too.
const holderLeast = 16

// lease passes on what a holder outside the cluster returns and asks for. The shard's answer to a node is the same
// (X17).
func (s limitService) lease(ctx context.Context, m *stintv1.LeaseRequest) (*stintv1.LeaseResponse, error) {
	policies, entry := s.policies(), &stintv1.Entry{Policy: m.Policy, Key: m.Key, Tier: m.Tier}
	//mutant:lease-by-a-grant-of-checks
	if err := granted(callerIn(ctx), policies, auth.Lease, m.Namespace, []*stintv1.Entry{entry}); err != nil {
		return nil, err
	}
	r, err := leaseRequest(m, entry)
	if err != nil {
		return nil, adjustError(err)
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, adjustError(err)
	}
	units, within := d.Granted()
	if units == 0 {
		return &stintv1.LeaseResponse{}, nil
	}
	said := d.LeasedAnswer()
	said.Age = 1
	message := decisionOf(&said)
	message.Headers = headersOf(policies, &r, &said)
	return &stintv1.LeaseResponse{Units: units, EndsAt: timestampOf(d.System.Lease.Ends), Decision: message,
		SpendWithin: durationOf(within)}, nil
}

// leaseRequest translates and validates a request for a lease: its names. The shard checks its numbers.
func leaseRequest(m *stintv1.LeaseRequest, entry *stintv1.Entry) (shard.Request, error) {
	r := shard.Request{Op: shard.Lease, System: &shard.SystemTerms{Lease: &shard.LeaseTerms{Holder: m.Holder,
		Number: m.Number, Units: m.Units, Returned: m.Returned, Spent: m.Spent}}}
	var err error
	if r.Namespace, err = namespaceOf(m.Namespace); err != nil {
		return r, err
	}
	e, err := entryOf(0, entry)
	if err != nil {
		return r, err
	}
	e.Cost = 0
	r.Entries = []shard.Entry{e}
	if n := len(m.Holder); n < holderLeast || n > shard.LeaseHolderMax {
		return r, shard.Invalidf("holder", "has %d bytes: %d to %d are allowed, drawn at random whenever it starts",
			n, holderLeast, shard.LeaseHolderMax)
	}
	return r, nil
}
