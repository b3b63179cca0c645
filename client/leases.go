package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/holder"
	"github.com/stint-io/stint/shard/slot"
)

// leaseTerms are what a client assumes of every policy, as it does not know them: a lease should have the units of two
// seconds at the present rate. The owner grants no more than the policy allows.
var leaseTerms = holder.Terms{Units: 1 << 40, For: 2 * time.Second}

// refusedFor is how long no lease of a key is asked for after the cluster has refused one for good: the policy allows
// none, or the token.
const refusedFor = time.Minute

// newLeases returns leases that a client asks the cluster for.
func newLeases(c *Client, clock func() holder.Time) *holder.Holder[*stintv1.Decision] {
	return holder.New(holder.Config[*stintv1.Decision]{Owner: c.askForLeases, Clock: clock,
		Terms: func(string) (holder.Terms, bool) { return leaseTerms, true }})
}

// fromLease returns the answer of a lease to a check, or nil if the cluster has to decide it.
func (c *Client) fromLease(ctx context.Context, r *stintv1.CheckRequest) *stintv1.Decision {
	if c.leases == nil || !leasable(r) || ctx.Err() != nil {
		return nil
	}
	e := r.Entries[0]
	cost := uint64(1)
	if e.Cost != nil {
		cost = *e.Cost
	}
	d, _, _ := c.leases.Spend(c.leaseName(r.Namespace, e.Policy, e.Key, e.Tier), cost, leaseTerms, true)
	return d
}

// leasable reports whether a lease may answer a check.
func leasable(r *stintv1.CheckRequest) bool {
	if len(r.GetEntries()) != 1 || r.IdempotencyId != "" || r.Explain { //mutant:client-leases-an-id
		return false
	}
	if r.Mode != stintv1.Mode_MODE_UNSPECIFIED && r.Mode != stintv1.Mode_MODE_ENFORCE {
		return false
	}
	e := r.Entries[0]
	return e != nil && e.Policy != "" && e.Limits == nil && (e.Cost == nil || *e.Cost > 0)
}

func (c *Client) leaseName(namespace, policy, key, tier string) holder.Name {
	return holder.Name{Namespace: cmp.Or(namespace, c.namespace, slot.DefaultNamespace), Policy: policy,
		Key: key, Tier: tier}
}

// askForLeases asks the cluster for leases, and returns some.
func (c *Client) askForLeases(ctx context.Context, asks []holder.Ask) []holder.Grant[*stintv1.Decision] {
	grants := make([]holder.Grant[*stintv1.Decision], len(asks))
	var group sync.WaitGroup
	for i := range asks {
		group.Go(func() { grants[i] = c.askForLease(ctx, &asks[i]) })
	}
	group.Wait()
	return grants
}

func (c *Client) askForLease(ctx context.Context, a *holder.Ask) holder.Grant[*stintv1.Decision] {
	r := &stintv1.LeaseRequest{Namespace: a.Name.Namespace, Policy: a.Name.Policy, Key: a.Name.Key, Tier: a.Name.Tier,
		Holder: a.Holder, Number: a.Number, Units: a.Units, Returned: a.Returned, Spent: a.Spent}
	owned := Entry(r.Policy, r.Key)
	owned.Namespace = r.Namespace
	m, err := call(ctx, c, owned, a.Number == 0, (*node).Lease, r)
	var failure *Error
	switch {
	case errors.As(err, &failure) && !failure.NoDecision():
		return holder.Grant[*stintv1.Decision]{Failed: true, Calm: refusedFor}
	case err != nil:
		return holder.Grant[*stintv1.Decision]{Failed: true}
	}
	return holder.Grant[*stintv1.Decision]{Units: m.Units, Within: m.SpendWithin.AsDuration(), Answer: m.Decision}
}

// endLeases returns the leases of a key that is changed by hand, and a function that does so again: one may be granted
// meanwhile. The owner then knows what was spent before the change. Without a policy the key is forgotten.
func (c *Client) endLeases(namespace, policy, key string) func() {
	if c.leases == nil {
		return func() {}
	}
	end := func() { c.leases.End([]holder.Name{c.leaseName(namespace, policy, key, "")}) }
	end() //mutant:client-lease-survives-a-change
	return end
}
