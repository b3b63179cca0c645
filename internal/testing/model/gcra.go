package model

import (
	"math/big"

	"github.com/stint-io/stint/limit"
)

// arrivals is GCRA by its definition: one theoretical arrival time, which each unit moves by one interval.
type arrivals struct {
	interval *big.Rat // microseconds
	arrival  *big.Rat // microseconds since the Unix epoch; in the past: nothing is used
}

func newArrivals(l limit.Limit) *arrivals {
	return &arrivals{interval: new(big.Rat).Quo(rat(uint64(l.Period)), rat(l.Count)), arrival: rat(0)}
}

func (a *arrivals) used(at limit.Time) *big.Rat {
	ahead := new(big.Rat).Sub(a.arrival, rat(uint64(at)))
	if ahead.Sign() < 0 {
		return rat(0)
	}
	return ahead.Quo(ahead, a.interval)
}

// move adds intervals, which may be less than 0, to the arrival, or to now if that is later. It overwrites intervals.
func (a *arrivals) move(intervals *big.Rat, now limit.Time) {
	from := rat(uint64(now))
	if a.arrival.Cmp(from) > 0 {
		from = a.arrival
	}
	a.arrival = new(big.Rat).Add(from, intervals.Mul(intervals, a.interval))
}

func (a *arrivals) count(units uint64, at limit.Time) { a.move(rat(units), at) }

func (a *arrivals) refund(units uint64, taken, now limit.Time) {
	back := notBack(units, new(big.Rat).Inv(a.interval), taken, now)
	a.move(back.Neg(back), now)
}
