package routing

import (
	"context"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/holder"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// lookWithin bounds the look at the leases that are open after a change by hand.
const lookWithin = 500 * time.Millisecond

// leases are the units that this node spends in memory, as the policies allow (policy.Policy.Lease, X17). The owner of
// a key has counted them before, so a check that they answer needs no trip, and no request is admitted above the limit.
//
// A lease answers a plain check of one entry with its own key and tier, as a Holder says. Any number of goroutines may
// use it.
type leases struct {
	*holder.Holder[*shard.Decision]
	policies func() *policy.Revision // Config.Policies
	// decide has the owners decide; it answers nothing from leases or kept denials.
	decide       func(context.Context, []shard.Request) []shard.Result
	told         func(*shard.Request, *shard.Decision) // Config.Repeated
	endElsewhere func(namespace, policy, key string)   // Config.EndElsewhere
}

// newLeases returns leases that ask by decide.
func newLeases(config *Config, decide func(context.Context, []shard.Request) []shard.Result) *leases {
	l := &leases{policies: config.Policies, decide: decide, told: config.Repeated, endElsewhere: config.EndElsewhere}
	begin, ahead, slept, wall := time.Now(), config.Ahead, config.Slept, config.Now
	l.Holder = holder.New(holder.Config[*shard.Decision]{Process: config.Node[:min(len(config.Node), 32)], Owner: l.ask,
		Terms: func(name string) (holder.Terms, bool) {
			if revision := l.revision(); revision != nil {
				if p, known := revision.Set.Lookup(name); known && p.Lease != nil {
					return termsOf(p, revision), true
				}
			}
			return holder.Terms{}, false
		},
		Clock: func() holder.Time {
			return holder.Time{Boot: time.Since(begin) + slept() + ahead(), Wall: time.Duration(wall().UnixNano())}
		}})
	return l
}

// termsOf returns the terms of the leases of a policy that allows some.
func termsOf(p *policy.Policy, of *policy.Revision) holder.Terms {
	return holder.Terms{Units: p.Lease.Units, For: time.Duration(p.Lease.For) * time.Microsecond, Revision: of.Version}
}

// revision returns the current policies if they allow leases, else nil.
func (l *leases) revision() *policy.Revision {
	if revision := l.policies(); revision != nil && revision.Set.GrantsLeases() {
		return revision
	}
	return nil
}

// leasable returns the policy with the lease that may answer the request, or nil.
func leasable(set *policy.Set, r *shard.Request) *policy.Policy {
	if r.Op != shard.Check || r.ID != "" || r.Retry || r.Number != 0 || r.NotAfter != 0 || r.Operation != nil ||
		len(r.Entries) != 1 {
		return nil
	}
	e := &r.Entries[0]
	if p, known := set.Lookup(e.Policy); known && p.Lease != nil && e.Limits == nil && e.Cost > 0 {
		return p
	}
	return nil
}

// answer answers a request from a lease, and reports whether it did. If counts is set, a request that it does not
// answer counts as one more that a lease might have answered.
func (l *leases) answer(revision *policy.Revision, r *shard.Request, counts bool, into *shard.Decision) bool {
	p := leasable(revision.Set, r)
	if p == nil {
		return false
	}
	e := &r.Entries[0]
	said, age, answered := l.Spend(nameOf(r, e), e.Cost, termsOf(p, revision), counts)
	if answered {
		*into = *said
		into.Age = max(1, limit.Span(age/time.Microsecond))
		into.Limits = append([]shard.LimitStatus(nil), said.Limits...)
		l.told(r, into) //mutant:leased-answer-unseen
	}
	return answered
}

// nameOf returns what a lease for an entry of a request is of.
func nameOf(r *shard.Request, e *shard.Entry) holder.Name {
	return holder.Name{Namespace: r.Namespace, Policy: e.Policy, Key: e.Key, Tier: e.Tier, Hashed: r.Hashed}
}

// ask asks the owners for leases, and returns some.
func (l *leases) ask(ctx context.Context, asks []holder.Ask) []holder.Grant[*shard.Decision] {
	requests := make([]shard.Request, len(asks))
	for i := range asks {
		requests[i] = leaseRequest(&asks[i])
	}
	grants := make([]holder.Grant[*shard.Decision], len(asks))
	for i, result := range l.decide(ctx, requests) {
		d, g := &result.Decision, &grants[i]
		units, within := d.Granted()
		if g.Failed = result.Err != nil; g.Failed || units == 0 {
			continue
		}
		g.Units, g.Within, g.Answer = units, time.Duration(within)*time.Microsecond, leasedAnswer(&asks[i].Name, d)
	}
	return grants
}

func leaseRequest(a *holder.Ask) shard.Request {
	return shard.Request{Op: shard.Lease, Namespace: a.Name.Namespace, Hashed: a.Name.Hashed,
		NotAfter: limit.Time(a.NotAfter / time.Microsecond),
		Entries:  []shard.Entry{{Policy: a.Name.Policy, Key: a.Name.Key, Tier: a.Name.Tier}},
		System: &shard.SystemTerms{Lease: &shard.LeaseTerms{Holder: a.Holder, Number: a.Number, Units: a.Units,
			Returned: a.Returned, Spent: a.Spent}}}
}

// leasedAnswer returns what a lease answers: the state of the limits as of the grant d. It shares no memory with d.
func leasedAnswer(of *holder.Name, d *shard.Decision) *shard.Decision {
	said := d.LeasedAnswer()
	for i := range said.Limits {
		s := &said.Limits[i]
		s.Policy, s.Key, s.Limit = of.Policy, of.Key, strings.Clone(s.Limit)
	}
	return &said
}

// wrap answers requests of this node's callers from leases, passes on the rest, and returns one result for each, in
// their order.
func (l *leases) wrap(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	revision := l.revision()
	if revision == nil {
		return l.pass(requests, decide)
	}
	if changesAny(requests) {
		l.endOnOthers(revision, requests) //mutant:others-spend-before-a-change
		results := l.pass(requests, decide)
		l.endGranted(revision, requests, results)
		return results
	}
	var results []shard.Result // nil: none is answered yet
	for i := range requests {
		var d shard.Decision
		if l.answer(revision, &requests[i], true, &d) {
			if results == nil {
				results = make([]shard.Result, len(requests))
			}
			results[i].Decision = d
		}
	}
	return decideRest(requests, results, func(r *shard.Result) bool { return r.Decision.Leased() }, decide)
}

// pass passes requests on. It returns the leases of keys that they change by hand, before, so that the owner knows what
// was spent, and after, as one may have been granted meanwhile.
func (l *leases) pass(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	if changesAny(requests) {
		l.end(requests)       //mutant:lease-survives-a-change
		defer l.end(requests) //mutant:lease-granted-beside-a-change
	}
	return decide(requests)
}

// endOnOthers has the other nodes return their leases of the keys that requests change by hand.
func (l *leases) endOnOthers(revision *policy.Revision, requests []shard.Request) {
	for _, name := range changedBy(requests) {
		if p, known := revision.Set.Lookup(name.Policy); name.Policy == "" || known && p.Lease != nil {
			l.endElsewhere(name.Namespace, name.Policy, name.Key)
		}
	}
}

// endGranted has the other nodes return the leases that were still open at a change, and tells it of those that are
// open after that: edges, clients and nodes that do not answer may have them.
func (l *leases) endGranted(revision *policy.Revision, requests []shard.Request, results []shard.Result) {
	for i := range requests {
		r, d := &requests[i], &results[i].Decision
		if !changesLeases(r.Op) || d.Answer().Lease == nil {
			continue
		}
		l.endOnOthers(revision, requests[i:i+1]) //mutant:others-spend-on-after-a-change
		look := shard.Request{Op: shard.Get, Namespace: r.Namespace, Hashed: r.Hashed, Entries: r.Entries}
		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		if now := l.decide(ctx, []shard.Request{look})[0]; now.Err == nil {
			d.System.Lease = now.Decision.Answer().Lease
		}
		cancel()
	}
}

func changesAny(requests []shard.Request) bool {
	for i := range requests {
		if changesLeases(requests[i].Op) {
			return true
		}
	}
	return false
}

// changesLeases reports whether an operation changes a key by hand, so that the owner may admit it otherwise from now
// on.
func changesLeases(op shard.Op) bool {
	switch op {
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.Forget:
		return true
	}
	return false
}

// end returns the leases of the keys that the requests change. It waits for the owner, as the requests would.
func (l *leases) end(requests []shard.Request) { l.End(changedBy(requests)) }

// changedBy names the keys that requests change by hand.
func changedBy(requests []shard.Request) (names []holder.Name) {
	for i := range requests {
		r := &requests[i]
		switch {
		case r.Op == shard.Forget && r.Adjustment != nil:
			names = append(names, holder.Name{Namespace: r.Namespace, Key: r.Adjustment.Forget})
		case r.Op != shard.Forget && changesLeases(r.Op):
			for j := range r.Entries {
				names = append(names, nameOf(r, &r.Entries[j]))
			}
		}
	}
	return names
}

// EndLeases returns the leases of a key that this process holds, for a change of it by hand that another process makes.
// Without a policy the key is forgotten.
func (r *Router) EndLeases(namespace, policy, key string) {
	r.leases.End([]holder.Name{{Namespace: namespace, Policy: policy, Key: key}})
}
