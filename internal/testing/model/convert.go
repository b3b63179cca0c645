package model

import (
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
)

// SetUsed replaces what is used at an instant by units.
func (m *Model) SetUsed(units uint64, now limit.Time) {
	old := m.memory
	m.memory = memoryOf(m.limit)
	if units == 0 {
		return
	}
	if n, ok := old.(*integer); ok && n.isThere(now) {
		m.memory = &integer{rat(0).Num(), n.until}
	}
	if w, ok := old.(window); ok {
		if from, until, used := w.openAt(now); used > 0 {
			m.memory = &carried{from: from, until: until, units: units, next: m.memory}
			return
		}
	}
	if b, ok := m.memory.(*bucket); ok {
		b.tokens = rat(m.limit.Quota)
	}
	m.memory.count(units, now)
}

// Convert changes the Model to another limit, and carries over the units that the old one counted.
func (m *Model) Convert(to limit.Limit, now limit.Time) {
	from, old := m.limit, m.memory
	if from == to {
		return
	}
	m.limit, m.memory = to, memoryOf(to)
	before, wasWindow := old.(window)
	_, isWindow := m.memory.(window)
	switch {
	case wasWindow && isWindow:
		if start, until, units := before.openAt(now); units > 0 {
			m.carry(start, until, units)
		}
	case isLog(from) && isLog(to):
		m.moveHits(from, old, now)
	case from.Count > 0 && to.Count > 0:
		m.moveLevel(from, old, now)
	case from.Algorithm == limit.SlidingWindow && to.Algorithm == limit.SlidingWindow && from.Period == to.Period:
		m.memory = old
	case !neverBegun(old):
		if used := ceiling(old.used(now)); used > 0 {
			m.memory.count(used, now)
		}
	}
}

// carried is a window that was open when the numbers changed. It keeps its end; next counts the units after it.
type carried struct {
	from, until limit.Time // until is 0 once all units were given back: next counts from then on
	units       uint64
	next        memory
}

// carry keeps an open window. It ends no earlier than it would have, and at an edge of the new limit.
func (m *Model) carry(from, until limit.Time, units uint64) {
	if m.limit.Algorithm == limit.FixedWindowFirstHit {
		until = max(until, from+limit.Time(m.limit.Period))
	} else {
		_, until, _ = m.memory.(window).openAt(until - 1)
	}
	if m.limit.Algorithm == limit.Calendar || from != until-limit.Time(m.limit.Period) {
		from = max(1, from) // 0 would mean that none is open
	}
	m.memory = &carried{from: from, until: until, units: units, next: m.memory}
}

func (c *carried) used(at limit.Time) *big.Rat {
	if at < c.until {
		return rat(c.units)
	}
	return c.next.used(at)
}

func (c *carried) count(units uint64, at limit.Time) {
	if at < c.until {
		c.units += units
		return
	}
	c.next.count(units, at)
}

func (c *carried) refund(units uint64, taken, now limit.Time) {
	switch {
	case now >= c.until:
		c.next.refund(units, taken, now)
	case taken >= c.from:
		if c.units -= min(units, c.units); c.units == 0 {
			c.until = 0
		}
	}
}

func (c *carried) openAt(now limit.Time) (from, until limit.Time, units uint64) {
	if now >= c.until {
		return c.next.(window).openAt(now)
	}
	return c.from, c.until, c.units
}

func isLog(l limit.Limit) bool {
	return l.Algorithm == limit.SlidingLog || l.Algorithm == limit.SlidingBuckets
}

// moveHits puts each hit that still counts where the new limit keeps it. A hit from a bucket is taken as late as it can
// have been.
func (m *Model) moveHits(from limit.Limit, old memory, now limit.Time) {
	history := old.(*cells)
	width := limit.Time(history.width)
	for _, h := range history.all {
		if h.units == 0 || h.cell <= int64(now/width)-history.keep {
			continue
		}
		at := limit.Time(h.cell) * width
		if from.Bucket > 0 && from.Bucket != m.limit.Bucket {
			at = min(at+width-1, now)
		}
		m.memory.count(h.units, at)
	}
}

// moveLevel carries over the missing units, rounded up to the resolution of the new rate.
func (m *Model) moveLevel(from limit.Limit, old memory, now limit.Time) {
	if neverBegun(old) {
		return
	}
	missing := m.inParts(old.used(now))
	switch to := m.memory.(type) {
	case *arrivals:
		to.move(missing, now)
	case *bucket:
		if usedBefore := from.Algorithm == limit.TokenBucket && from.Initial < from.Quota; missing.Sign() > 0 ||
			usedBefore {
			to.tokens, to.since, to.begun = new(big.Rat).Sub(to.quota, missing), now, true
		}
	}
}

// inParts rounds missing units up to the resolution of the rate.
func (m *Model) inParts(missing *big.Rat) *big.Rat {
	parts := new(big.Int).GCD(nil, nil, big.NewInt(int64(m.limit.Period)), new(big.Int).SetUint64(m.limit.Count))
	parts.Div(big.NewInt(int64(m.limit.Period)), parts) // of a unit
	each := new(big.Rat).SetInt(parts)
	missing = rat(ceiling(new(big.Rat).Mul(missing, each)))
	return missing.Quo(missing, each)
}

// scale changes the used units to their share of another quota, rounded up, at now and at every later instant.
func (m *Model) scale(quota, before uint64, now limit.Time) {
	part := func(units uint64) uint64 { return share(units, quota, before) }
	switch x := m.memory.(type) {
	case *weightedWindow:
		n := x.cell(now)
		x.all = []hit{{n - 1, part(x.sum(n-1, n-1))}, {n, part(x.sum(n, n))}}
	case *cells:
		first := x.cell(now) - x.keep + 1
		x.all = scaled(slices.DeleteFunc(x.all, func(h hit) bool { return h.cell < first }), part)
	case *bucket:
		if x.begun {
			missing := new(big.Rat).Mul(x.used(now), new(big.Rat).Quo(rat(quota), rat(before)))
			x.tokens, x.since = new(big.Rat).Sub(x.quota, m.inParts(missing)), now
		}
	case *arrivals:
		missing := m.inParts(new(big.Rat).Mul(x.used(now), new(big.Rat).Quo(rat(quota), rat(before))))
		x.arrival = rat(0)
		x.move(missing, now)
	default:
		m.SetUsed(part(ceiling(x.used(now))), now)
	}
}

// scaled replaces hits, in the order of their cells, so that any number of the newest are together the part of what
// they were.
func scaled(all []hit, part func(uint64) uint64) (scaled []hit) {
	for i, one := range all {
		var from, after uint64
		for _, later := range all[i:] {
			from += later.units
		}
		for _, later := range all[i+1:] {
			after += later.units
		}
		scaled = append(scaled, hit{one.cell, part(from) - part(after)})
	}
	return scaled
}
