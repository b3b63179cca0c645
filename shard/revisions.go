package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// numberChange is when a revision last changed the numbers of a limit, under any tier.
type numberChange struct {
	policy, limit string // both "" in the one about leases (isOfLeases)
	at            limit.Time
}

// isOfLeases reports whether the change is not of numbers: a policy that allowed leases last ceased to at that instant.
// It is kept for as long as a lease may live.
func (c numberChange) isOfLeases() bool { return c.policy == "" }

// revisedBy returns when the numbers of the limits of a set last changed, if set replaces before now.
func revisedBy(before, set *policy.Set, known []numberChange, now limit.Time) (changes []numberChange) {
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		old, _ := before.Lookup(name)
		for i := range p.Limits {
			c := numberChange{name, p.Limits[i].Name, now}
			if old != nil && p.SameNumbers(old, c.limit) {
				j := slices.IndexFunc(known, func(k numberChange) bool { return k.policy == name && k.limit == c.limit })
				if j < 0 {
					continue
				}
				c.at = known[j].at //mutant:every-revision-changes-all
			}
			changes = append(changes, c)
		}
	}
	if until := leasedUntil(before, set, known, now); until != 0 && now-until <= limit.Time(policy.LeaseForMax) {
		changes = append(changes, numberChange{at: until})
	}
	return changes
}

// leasedUntil returns when a policy that allowed leases last ceased to, if set replaces before now, or 0 if the shard
// knows of none.
func leasedUntil(before, set *policy.Set, known []numberChange, now limit.Time) (until limit.Time) {
	for _, c := range known {
		if c.isOfLeases() {
			until = max(until, c.at)
		}
	}
	for _, name := range before.Names() {
		old, _ := before.Lookup(name)
		if p, _ := set.Lookup(name); old.Lease != nil && (p == nil || p.Lease == nil) {
			until = now //mutant:lease-of-a-former-policy-missed
		}
	}
	return until
}

// revisedFrom is revisedBy for the texts of two revisions. A former one that cannot be read had no policies.
func revisedFrom(before, text []byte, known []numberChange, now limit.Time) ([]numberChange, error) {
	set, err := policy.Parse("", text)
	if err != nil {
		return nil, err
	}
	old, err := policy.Parse("", before)
	if err != nil {
		old = policy.NewSet(nil)
	}
	return revisedBy(old, set, known, now), nil
}

// mergeNumberChanges adds when limits got their numbers to what is known of that. It is the later instant.
func mergeNumberChanges(known, others []numberChange) []numberChange {
	for _, o := range others {
		i := slices.IndexFunc(known, func(k numberChange) bool { return k.policy == o.policy && k.limit == o.limit })
		if i < 0 {
			known = append(known, o)
		} else {
			known[i].at = max(known[i].at, o.at) //mutant:revision-before-the-newest-count
		}
	}
	return known
}

// revisions are the changes that the shard has adopted, loaded when a request of a batch needs them.
type revisions struct {
	known []numberChange
	read  bool
}

// of returns when a revision last changed the numbers of a limit, or limit.Forever if the shard does not know.
func (r *revisions) of(view Records, policy, name string) limit.Time {
	if !r.read {
		_, _, r.known, _ = adopted(view)
		r.read = true
	}
	for i := range r.known {
		if c := &r.known[i]; c.policy == policy && c.limit == name {
			return c.at
		}
	}
	return limit.Forever
}
