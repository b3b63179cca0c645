package routing

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// denialPass is a batch of requests on their way through this node. It belongs to one goroutine.
type denialPass struct {
	*denials
	revision  *policy.Revision
	requests  []shard.Request
	asked     limit.Span // when the requests came, by denials.now
	inquiries []inquiry  // the requests without a matching denial
	makesRoom bool       // one of the requests may free capacity

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
