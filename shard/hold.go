package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// holdTermsProblem refuses a Reserve that does not say how long its hold lives.
func holdTermsProblem(r *Request) *Error {
	switch h := r.Hold; {
	case h == nil:
		return Invalidf("ttl", "is missing: a hold must end when nobody settles it")
	case h.TTL < 1 || h.TTL > MaxHoldTTL:
		return Invalidf("ttl", "is %d us: a hold lives for 1 us to 31 days at once; extend it to keep it longer", h.TTL)
	case h.OnExpire > policy.OnExpireCommit:
		return Invalidf("on_expire", "%d is not known to this version: run a newer one", h.OnExpire)
	}
	return nil
}

// reserve takes what the limits have room for and opens a hold of it: one in the counter of each entry, all of one name.
func (e *evaluation) reserve(r *Request, d Decision) Result {
	if err := e.roomForHolds(); err != nil {
		return Result{Err: err}
	}
	e.count(&d)
	d.HoldExpires = e.at.Now + limit.Time(r.Hold.TTL)
	e.putHolds(r, &d, hold{name: holdName(d.Position, d.Index), expires: d.HoldExpires})
	e.showExtras(&d)
	return Result{Decision: d}
}
