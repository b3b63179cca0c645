package api

import (
	"slices"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// granted refuses a request unless the caller may do the operation on all its entries. It runs before any lookup, so
// that a refusal does not reveal what exists.
func granted(who *auth.Caller, policies *policy.Set, op auth.Op, namespace string, entries []*stintv1.Entry) error {
	if who.MayAll() {
		return nil
	}
	if namespace == "" {
		namespace = shard.DefaultNamespace
	}
	for _, e := range entries {
		on := auth.Target{Namespace: namespace, Policy: e.GetPolicy(), Key: e.GetKey(), Tier: e.GetTier()}
		on.Unlimited = on.Tier != "" && policies.TierIsUnlimited(on.Policy, on.Tier)
		err := permitted(who, op, on)
		if err == nil && len(e.GetLimits()) > 0 {
			err = permitted(who, auth.Inline, on)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// permitted refuses an operation that the caller may not do.
func permitted(who *auth.Caller, op auth.Op, on auth.Target) error {
	if !who.May(op, on) {
		return auth.NotGrantedError(op)
	}
	return nil
}

// grantedRequest is granted for a request with known entries.
func grantedRequest(who *auth.Caller, op auth.Op, r *shard.Request) error {
	for i := range r.Entries {
		if err := grantedEntry(who, op, r.Namespace, &r.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// grantedEntry refuses an operation on an entry that the caller may not do. The tier of the entry does not matter.
func grantedEntry(who *auth.Caller, op auth.Op, namespace string, e *shard.Entry) error {
	if who.MayAll() {
		return nil
	}
	return permitted(who, op, auth.Target{Namespace: namespace, Policy: e.Policy, Key: e.Key})
}

// grantedSettlement is granted for a request with the entries in a sealed id. Those that were added for the parents of
// others need no grant, as when they were counted.
func grantedSettlement(who *auth.Caller, policies *policy.Set, r *shard.Request) error {
	for i := range r.Entries {
		err := grantedEntry(who, auth.Settle, r.Namespace, &r.Entries[i])
		if err != nil && !isParent(policies, &r.Entries[i], r.Entries[:i]) { //mutant:settlement-asks-for-parents
			return err
		}
	}
	return nil
}

// isParent reports whether the policies add an entry for one of those before it.
func isParent(policies *policy.Set, e *shard.Entry, before []shard.Entry) bool {
	return slices.ContainsFunc(before, func(child shard.Entry) bool {
		parent, has := shard.ParentOf(policies, &child)
		return has && parent.Policy == e.Policy && parent.Key == e.Key
	})
}
