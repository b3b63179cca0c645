package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// termsProblem refuses a request without the parameters of its operation, before anything is looked up.
func (r *Request) termsProblem() *Error {
	switch r.Op {
	case Reserve:
		return holdTermsProblem(r)
	case Settle:
		return settlementProblem(r)
	case Reset, SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride, CorrectUsage:
		return adjustmentProblem(r)
	case Tally, ReadTally:
		return tallyProblem(r)
	case Lease:
		return leaseProblem(r)
	}
	return nil
}

// holdTermsProblem refuses a Reserve without a valid lifetime of its hold.
func holdTermsProblem(r *Request) *Error {
	switch h := r.Hold; {
	case h == nil:
		return Invalidf("ttl", "is missing: a hold that is not settled must end")
	case h.TTL < 1 || h.TTL > MaxHoldTTL:
		return Invalidf("ttl", "is %d us: a hold lives for 1 us to 31 days at once; extend it to keep it longer", h.TTL)
	case h.OnExpire > policy.OnExpireCommit:
		return Invalidf("on_expire", "%d is not known to this version: run a newer one", h.OnExpire)
	}
	return nil
}

// reserve takes the units that the limits have admitted, and opens holds of them: one in the counter of each entry, all
// with one name.
func (e *evaluation) reserve(r *Request, d *Decision) *Error {
	if err := e.aboutToMove(r); err != nil { //mutant:hold-spans-a-moving-slot
		return err
	}
	if err := e.charges.roomForHolds(); err != nil {
		return err
	}
	if e.room.full() {
		return e.full()
	}
	e.count(d)
	d.HoldExpires = e.at.Now + limit.Time(r.Hold.TTL)
	e.putHolds(r, d, hold{name: holdName(d.Position, d.Index), expires: d.HoldExpires, onExpire: r.Hold.OnExpire,
		spans: r.spans()})
	return nil
}
