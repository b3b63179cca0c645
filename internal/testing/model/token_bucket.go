package model

import (
	"math/big"

	"github.com/stint-io/stint/limit"
)

// bucket is the usual picture: tokens drip in until it is full, and requests take them out.
type bucket struct {
	quota   *big.Rat
	perTick *big.Rat // tokens that come back per microsecond
	begun   bool     // the first request was counted: from then on tokens come back
	tokens  *big.Rat // at since
	since   limit.Time
}

func newBucket(l limit.Limit) *bucket {
	return &bucket{quota: rat(l.Quota), perTick: new(big.Rat).Quo(rat(l.Count), rat(uint64(l.Period))),
		tokens: rat(l.Initial), begun: l.Initial == l.Quota}
}

func (b *bucket) level(at limit.Time) *big.Rat {
	if !b.begun {
		return b.tokens
	}
	came := new(big.Rat).Mul(b.perTick, rat(uint64(at-b.since)))
	return smaller(b.quota, came.Add(came, b.tokens))
}

func (b *bucket) used(at limit.Time) *big.Rat { return new(big.Rat).Sub(b.quota, b.level(at)) }

func (b *bucket) count(units uint64, at limit.Time) {
	b.tokens = new(big.Rat).Sub(b.level(at), rat(units))
	b.since, b.begun = at, true
}

func (b *bucket) refund(units uint64, taken, now limit.Time) {
	if !b.begun {
		return
	}
	more := new(big.Rat).Add(b.level(now), notBack(units, b.perTick, taken, now))
	b.tokens, b.since = smaller(b.quota, more), now
}

// notBack is the part of the taken units that has not come back by itself.
func notBack(units uint64, perTick *big.Rat, taken, now limit.Time) *big.Rat {
	came := new(big.Rat).Mul(perTick, rat(uint64(now-taken)))
	if came.Cmp(rat(units)) >= 0 {
		return rat(0)
	}
	return came.Sub(rat(units), came)
}

// neverBegun reports whether the passing of time does not change anything yet.
func neverBegun(m memory) bool {
	b, ok := m.(*bucket)
	return ok && !b.begun
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
