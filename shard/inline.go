package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/policy"
)

// inlinePolicy stands for the policy of entries that bring their limits along: it has nothing but the defaults. A
// settlement whose policy is gone finds it too.
var inlinePolicy = &policy.Policy{Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel}

// policyOf finds the policy of an entry.
func (e *evaluation) policyOf(entry *Entry) (*policy.Policy, bool) {
	if entry.Limits != nil {
		return inlinePolicy, true
	}
	return e.policies.Lookup(entry.Policy)
}

// charge finds the counter of the i-th entry and the limits that hold for it: those it brings along, or its policy's
// with its tier, or with the key's override.
func (e *evaluation) charge(r *Request, i int, op Op) (charge, *Error) {
	entry := &r.Entries[i]
	p, ok := e.policyOf(entry)
	switch {
	case op == Settle && (!ok || entry.Limits != nil):
		return e.storedCharge(r, entry), nil
	case !ok:
		return charge{}, &Error{Code: PolicyNotFound, Field: fmt.Sprintf("entries[%d].policy", i),
			Message: fmt.Sprintf("no policy is named %q; `stint policies` lists them", entry.Policy)}
	case entry.Limits != nil:
		return charge{e.counter(r.Namespace, entry, p, entry.Limits), p, entry.Limits}, nil
	}
	c := e.counter(r.Namespace, entry, p, p.Limits)
	limits, ok := p.Resolve(entry.Tier)
	if c.extras != nil && inForce(c.extras.override, e.at.Now) {
		limits, ok = p.ResolveFor(entry.Tier, c.extras.override)
	}
	if !ok && op == Settle {
		return e.storedCharge(r, entry), nil
	}
	if !ok {
		return charge{}, Invalidf(fmt.Sprintf("entries[%d].tier", i), "policy %q has no tier %q", entry.Policy, entry.Tier)
	}
	return charge{c, p, limits}, nil
}

// storedCharge is an entry of a settlement of which only the key's record knows the limits: of inline ones the id of the
// hold has the names, of a policy or tier that is gone nobody has. A limit at rest that was forgotten is left out.
func (e *evaluation) storedCharge(r *Request, entry *Entry) charge {
	c := e.counter(r.Namespace, entry, inlinePolicy, entry.Limits)
	limits := make([]policy.Limit, 0, len(c.limits))
	for i := range c.limits {
		l := &c.limits[i]
		named := func(n policy.Limit) bool { return n.Name == l.name }
		if entry.Limits == nil || slices.ContainsFunc(entry.Limits, named) {
			limits = append(limits, policy.Limit{Name: l.name, Limit: l.limit})
		}
	}
	return charge{c, c.policy, limits}
}
