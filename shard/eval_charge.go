package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// charge is an entry of the current request: its counter, and the limits with the numbers of its tier or of the key's
// override. The policy is inlinePolicy if the request has inline limits.
type charge struct {
	counter *counter
	policy  *policy.Policy
	limits  []policy.Limit
	first   int    // the place of its first limit in Decision.Limits, and in the states that they lead to
	looks   bool   // the entry's cost is 0: it can deny the request, and counts nothing
	units   uint64 // taken by the request if it is allowed
}

// charges are the charges of one request, in the order of its entries.
type charges []charge

// undo makes the statuses of a denial show the current state, since no limit was counted. The statuses of a Partial
// show whether its minimum has room.
func (cs charges) undo(r *Request, op Op, d *Decision, now limit.Time) {
	for i := range cs {
		ch := &cs[i]
		for j := range ch.limits {
			l, status := &ch.limits[j], &d.Limits[ch.first+j]
			if status.Allowed || op == Partial {
				_, status.Verdict = ch.ask(Peek, j, ch.counter.at(j, l, now), op.least(&r.Entries[i]), now)
			}
			status.Granted = 0
		}
	}
}
