package routing

import (
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// wrap answers requests that pass this node from the kept denials, passes on the rest, and returns one result for each,
// in their order. It keeps new denials that may be repeated, and ends those that a request may make untrue.
func (d *denials) wrap(requests []shard.Request, decide func([]shard.Request) []shard.Result) []shard.Result {
	if slices.ContainsFunc(requests, isForget) {
		d.forget(requests)
		defer d.forget(requests) // a denial may have been kept meanwhile
	}
	revision := d.revision()
	if revision == nil {
		return decide(requests)
	}
	p := denialPass{denials: d, revision: revision, requests: requests, asked: d.now()}
	p.repeat()
	all := decideRest(requests, p.results, func(r *shard.Result) bool { return r.Decision.Age != 0 }, decide)
	p.end(all)
	return all
}

// revision returns the current policies if they allow any denial to be repeated, else nil.
func (d *denials) revision() *policy.Revision {
	if revision := d.policies(); revision != nil && revision.Set.RepeatsDenials() {
		return revision
	}
	return nil
}

// answer repeats a denial if one answers the request.
func (d *denials) answer(r *shard.Request, into *shard.Decision) bool {
	revision := d.revision()
	if revision == nil {
		return false
	}
	q, ok := d.inquire(revision.Set, r)
	if !ok {
		return false
	}
	now := d.now()
	kept := d.find(&q, r, revision.Version, now)
	if kept == nil {
		return false
	}
	kept.repeat(now, make([]shard.LimitStatus, len(kept.decision.Limits)), into)
	d.repeated(r, into) //mutant:quick-denial-unseen
	return true
}

// denialPass is a batch of requests on their way through this node. It belongs to one goroutine.
type denialPass struct {
	*denials
	revision  *policy.Revision
	requests  []shard.Request
	asked     limit.Span
	inquiries []inquiry // the requests without a matching denial
	makesRoom bool      // one of the requests may free capacity

	results  []shard.Result      // of those that were answered here; nil: none was
	statuses []shard.LimitStatus // memory for the next of them
}

// repeat answers requests from kept denials, in order, so that a denial that one request ends is not repeated to a
// later one.
func (p *denialPass) repeat() {
	for i := range p.requests {
		r := &p.requests[i]
		if p.makeRoom(r) {
			p.makesRoom = true
			continue
		}
		q, ok := p.inquire(p.revision.Set, r)
		if !ok {
			continue
		}
		kept := p.find(&q, r, p.revision.Version, p.asked)
		if kept == nil {
			q.place = i
			p.inquiries = append(p.inquiries, q)
			continue
		}
		if p.results == nil {
			p.results = make([]shard.Result, len(p.requests))
		}
		kept.repeat(p.asked, p.space(len(kept.decision.Limits), len(p.requests)-i), &p.results[i].Decision)
		p.repeated(r, &p.results[i].Decision) //mutant:repeated-denial-unseen
	}
}

// space returns memory for the statuses of one answer. It allocates for several requests at once, because the following
// ones are mostly alike.
func (p *denialPass) space(statuses, requests int) []shard.LimitStatus {
	const most = 64
	if len(p.statuses) < statuses {
		p.statuses = make([]shard.LimitStatus, max(statuses, min(statuses*requests, most)))
	}
	mine := p.statuses[:statuses:statuses]
	p.statuses = p.statuses[statuses:]
	return mine
}

// end takes the results of all requests. It keeps denials that may be repeated, and ends those that have become untrue.
func (p *denialPass) end(all []shard.Result) {
	if p.makesRoom {
		// A request asked meanwhile may have been denied before this one took effect.
		for i := range p.requests {
			p.makeRoom(&p.requests[i])
		}
	}
	if len(p.inquiries) == 0 {
		return
	}
	heard := p.now()
	for i := range p.inquiries {
		q := &p.inquiries[i]
		if result := &all[q.place]; result.Err == nil {
			p.keep(q, &p.requests[q.place], &result.Decision, p.revision, p.asked, heard)
		}
	}
}

// makeRoom ends the denials that a request may have made untrue, or will make untrue when it is decided. It reports
// whether the request is of this kind. It is called before and after the request is decided: a denial asked for in
// between may predate the change, and is not kept.
func (d *denials) makeRoom(r *shard.Request) bool {
	switch r.Op {
	case shard.Reset, shard.SetUsed, shard.AddUsed, shard.Block, shard.Unblock, shard.PutOverride, shard.DeleteOverride,
		shard.Settle:
		for i := range r.Entries {
			d.stripe(d.hashOf(r.Namespace, &r.Entries[i])).Add(1)
		}
		return true
	case shard.FinishLeg:
		if state := r.Operation.Verdict.State; state != shard.OperationAborted && state != shard.OperationSettled {
			return false
		}
		if len(r.Entries) == 0 { // from a home that has forgotten the keys
			d.anywhere.Add(1)
		}
		for i := range r.Entries {
			d.stripe(d.hashOf(r.Namespace, &r.Entries[i])).Add(1)
		}
		return true
	}
	return false
}

func isForget(r shard.Request) bool { return r.Op == shard.Forget }

// forget drops the denials of keys that are being forgotten. The memory of a denial that is not repeated any more would
// hold its key until another one needs the slot.
func (d *denials) forget(requests []shard.Request) {
	for i := range requests {
		r := &requests[i]
		if r.Op != shard.Forget || r.Adjustment == nil {
			continue
		}
		d.anywhere.Add(1)
		for n := range d.slots {
			kept := d.slots[n].Load()
			if kept != nil && kept.namespace == r.Namespace &&
				slices.ContainsFunc(kept.entries, func(e shard.Entry) bool { return e.Key == r.Adjustment.Forget }) {
				d.slots[n].CompareAndSwap(kept, nil) //mutant:forgotten-key-among-denials
			}
		}
	}
}

// own makes the denial independent of the memory of the request and the answer, which may be part of something larger.
// It returns false if a status does not belong to the request.
func (k *denial) own(r *shard.Request, set *policy.Set) bool {
	k.namespace = strings.Clone(r.Namespace)
	k.entries = make([]shard.Entry, len(r.Entries))
	for i := range r.Entries {
		e := &r.Entries[i]
		p, _ := set.Lookup(e.Policy)
		k.entries[i] = shard.Entry{Policy: p.Name, Key: strings.Clone(e.Key), Cost: e.Cost, Tier: strings.Clone(e.Tier)}
	}
	said := k.decision.Limits
	k.decision.Limits = make([]shard.LimitStatus, len(said))
	at := 0
	for i := range said {
		for at < len(k.entries) && (k.entries[at].Policy != said[i].Policy || k.entries[at].Key != said[i].Key) {
			at++
		}
		if at == len(k.entries) {
			return false
		}
		k.decision.Limits[i] = said[i]
		k.decision.Limits[i].Policy, k.decision.Limits[i].Key = k.entries[at].Policy, k.entries[at].Key
		k.decision.Limits[i].Limit = strings.Clone(said[i].Limit)
	}
	return true
}
