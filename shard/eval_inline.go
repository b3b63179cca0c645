package shard

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// inlinePolicy stands for the policy of entries with inline limits: it has only the defaults. It also stands for a
// policy that no longer exists.
var inlinePolicy = &policy.Policy{Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel}

// policyAtKey returns the policy of a counter's record, or inlinePolicy if there is none now.
func policyAtKey(policies *policy.Set, key string) *policy.Policy {
	if p, known := policies.Lookup(policyOfKey(key)); known {
		return p
	}
	return inlinePolicy
}

// maxInline bounds the inline limits of one key, and thereby its record. Each request may use new names, and a limit is
// kept until it is at rest.
const maxInline = 64

// hasRoomFor reports whether the counter may keep these limits as well.
func (c *counter) hasRoomFor(limits []policy.Limit, now limit.Time) bool {
	if len(c.limits)+len(limits) <= maxInline {
		return true
	}
	count := 0
	for i := range c.limits {
		if l := &c.limits[i]; !l.atRest(now) || l.keepsSince(now) {
			count++
		}
	}
	for i := range limits {
		if c.limits.find(i, limits[i].Name) < 0 {
			count++
		}
	}
	return count <= maxInline
}

// policyOf returns the policy of an entry.
func (b *batch) policyOf(entry *Entry) (*policy.Policy, bool) {
	if entry.Limits != nil {
		return inlinePolicy, true
	}
	return b.policies.Lookup(entry.Policy)
}

// charge returns the counter of the i-th entry and its limits: the inline ones, or those of its policy with the entry's
// tier or the key's override.
func (b *batch) charge(r *Request, i int, op Op) (charge, *Error) {
	entry := &r.Entries[i]
	p, ok := b.policyOf(entry)
	settles := op == Settle || r.returnsLease() //mutant:return-of-a-removed-tier-refused
	switch {
	case settles && (!ok || entry.Limits != nil):
		return b.storedCharge(r, i)
	case !ok:
		return charge{}, errorf(PolicyNotFound, fmt.Sprintf("entries[%d].policy", i), "no policy is named %q%s; "+
			"`stint policies` lists them", entry.Policy, didYouMean(b.policies.Nearest(entry.Policy)))
	case entry.Limits != nil:
		c, err := b.counter(r, i, p, entry.Limits)
		if err != nil {
			return charge{}, err
		}
		c = b.bringUp(c, nil, "", false)
		if op.charges() && !c.hasRoomFor(entry.Limits, b.at.Now) {
			return charge{}, errorf(Overloaded, fmt.Sprintf("entries[%d].limits", i), "would be too many on the key, "+
				"which remembers at most %d: name them as before, or wait until old ones end", maxInline)
		}
		return charge{counter: c, policy: p, limits: entry.Limits}, nil
	}
	c, err := b.counter(r, i, p, p.Limits)
	if err != nil {
		return charge{}, err
	}
	override := c.override()
	if !inForce(override, b.at.Now) {
		override = nil
	}
	limits, ok := p.ResolveFor(entry.Tier, override)
	if !ok && settles {
		return b.storedCharge(r, i)
	}
	if !ok {
		return charge{}, Invalidf(fmt.Sprintf("entries[%d].tier", i), "policy %q has no tier %q%s",
			entry.Policy, entry.Tier, didYouMean(p.NearestTier(entry.Tier)))
	}
	if p.UnknownKey == policy.UnknownKeyDeny && override == nil && op.needsKey() && !settles {
		return charge{}, errorf(KeyNotFound, fmt.Sprintf("entries[%d].key", i), "policy %q knows no key %q: "+
			"give it an override first, of a tier or of numbers", entry.Policy, entry.Key)
	}
	c = b.bringUp(c, limits, entry.Tier, op.reads(entry))
	return charge{counter: c, policy: p, limits: limits}, nil
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", name)
}

// storedCharge returns the charge of the entry of a settlement, or of a returned lease, if only the key's record still
// has its limits: the hold's id contains just the names of inline limits, and a policy or tier may no longer exist. A
// limit that was at rest and forgotten is left out.
func (b *batch) storedCharge(r *Request, i int) (charge, *Error) {
	entry := &r.Entries[i]
	c, err := b.counter(r, i, inlinePolicy, entry.Limits)
	if err != nil {
		return charge{}, err
	}
	c = b.bringUp(c, nil, "", false)
	limits := make([]policy.Limit, 0, len(c.limits))
	for i := range c.limits {
		l := &c.limits[i]
		named := func(n policy.Limit) bool { return n.Name == l.name }
		if entry.Limits == nil || slices.ContainsFunc(entry.Limits, named) {
			limits = append(limits, policy.Limit{Name: l.name, Limit: l.limit})
		}
	}
	return charge{counter: c, policy: c.policy, limits: limits}, nil
}
