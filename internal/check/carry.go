package check

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
)

// copied is a Model that has nothing in common with m but its numbers.
func (m *Model) copied() *Model { return &Model{limit: m.limit, memory: copyOf(m.memory)} }

func copyOf(m memory) memory {
	switch m := m.(type) {
	case *epochWindow:
		c := *m
		c.all = slices.Clone(m.all)
		return &c
	case *anchoredWindow:
		c := *m
		c.units = slices.Clone(m.units)
		return &c
	case *weightedWindow:
		c := *m
		c.all = slices.Clone(m.all)
		return &c
	case *buckets:
		c := *m
		c.all = slices.Clone(m.all)
		return &c
	case *log:
		return &log{hits{slices.Clone(m.all), m.keep}}
	case *tally:
		return &tally{slices.Clone(m.units)}
	case *bucket: // its fractions are replaced, never changed
		c := *m
		return &c
	case *arrivals:
		c := *m
		return &c
	case *carriedWindow:
		c := *m
		c.next = copyOf(m.next)
		return &c
	}
	panic(fmt.Sprintf("check: %T cannot be copied", m))
}

// carriedWindow is a window that was open when the numbers of its limit changed: it counts on until its own end, and
// only then windows of the new numbers begin.
type carriedWindow struct {
	from, until limit.Time // what was taken before from is not given back any more
	units       uint64
	next        memory
}

func (w *carriedWindow) open(at limit.Time) bool { return at < w.until }

func (w *carriedWindow) used(at limit.Time) *big.Rat {
	if w.open(at) {
		return rat(w.units)
	}
	return w.next.used(at)
}

func (w *carriedWindow) count(units uint64, at limit.Time) {
	if w.open(at) {
		w.units += units
	} else {
		w.next.count(units, at)
	}
}

func (w *carriedWindow) refund(units uint64, taken, now limit.Time) {
	switch {
	case !w.open(now):
		w.next.refund(units, taken, now)
	case taken >= w.from:
		if w.units -= min(units, w.units); w.units == 0 {
			w.until = 0
		}
	}
}

func (w *carriedWindow) windowStart(now limit.Time) limit.Time {
	if w.open(now) {
		return max(0, min(w.from, now))
	}
	return w.next.windowStart(now)
}

// converted is what was used under m, under other numbers: the rules are those of limit.Convert.
func (m *Model) converted(l limit.Limit, now limit.Time) *Model {
	if l == m.limit {
		return m.copied()
	}
	fresh := New(l)
	switch old := m.limit; {
	case countsWindows(old) && countsWindows(l):
		m.keepWindow(fresh, now)
	case remembersHits(old) && remembersHits(l):
		m.keepHits(fresh, now)
	case old.Count > 0 && l.Count > 0:
		m.keepMissing(fresh, now)
	case old.Algorithm == limit.SlidingWindow && l.Algorithm == limit.SlidingWindow && old.Period == l.Period:
		fresh.memory = copyOf(m.memory)
	default:
		if used := m.spent(now); used > 0 {
			fresh.memory.count(used, now)
		}
	}
	return fresh
}

func countsWindows(l limit.Limit) bool {
	return l.Algorithm == limit.FixedWindow || l.Algorithm == limit.FixedWindowFirstHit
}

func remembersHits(l limit.Limit) bool {
	return l.Algorithm == limit.SlidingLog || l.Algorithm == limit.SlidingBuckets
}

// spent leaves out the tokens that a bucket which nobody has used does not hold yet.
func (m *Model) spent(now limit.Time) uint64 {
	if neverBegun(m.memory) {
		return 0
	}
	return ceiling(m.memory.used(now))
}

// openWindow is the beginning and end of the window that counts at now; no end: there is none.
func (m *Model) openWindow(now limit.Time) (from, until limit.Time) {
	if m.memory.used(now).Sign() == 0 {
		return 0, 0
	}
	switch w := m.memory.(type) {
	case *carriedWindow:
		if w.open(now) {
			return w.from, w.until
		}
		return (&Model{limit: m.limit, memory: w.next}).openWindow(now)
	default:
		from = m.memory.windowStart(now)
		return from, from + limit.Time(m.limit.Period)
	}
}

func (m *Model) keepWindow(to *Model, now limit.Time) {
	_, end := m.openWindow(now)
	if end == 0 {
		return
	}
	old, period := limit.Time(m.limit.Period), limit.Time(to.limit.Period)
	until := max(end, end-old+period)
	if to.limit.Algorithm == limit.FixedWindow {
		until = (end-1)/period*period + period
	}
	to.memory = &carriedWindow{from: until - period, until: until, units: m.spent(now), next: to.memory}
}

func (m *Model) keepHits(to *Model, now limit.Time) {
	var all []hit
	oldest := int64(now) - int64(m.limit.Period) + 1
	switch memory := m.memory.(type) {
	case *log:
		for _, h := range memory.all {
			if h.cell >= oldest {
				all = append(all, h)
			}
		}
	case *buckets:
		width := int64(memory.width)
		for _, h := range memory.all {
			if at := h.cell * width; h.cell > int64(now)/width-memory.keep {
				if to.limit.Bucket != m.limit.Bucket {
					at = min(at+width-1, int64(now))
				}
				all = append(all, hit{at, h.units})
			}
		}
	}
	for _, h := range all {
		if h.units > 0 {
			to.memory.count(h.units, limit.Time(h.cell))
		}
	}
}

func (m *Model) keepMissing(to *Model, now limit.Time) {
	if neverBegun(m.memory) {
		return
	}
	missing := m.memory.used(now)
	if missing.Sign() == 0 && !(m.limit.Algorithm == limit.TokenBucket && m.limit.Initial < m.limit.Quota) {
		return
	}
	// The smallest part of a unit that the new numbers know is what one microsecond gives back.
	parts := new(big.Int).SetUint64(uint64(to.limit.Period))
	parts.Quo(parts, new(big.Int).GCD(nil, nil, parts, new(big.Int).SetUint64(to.limit.Count)))
	scaled := new(big.Rat).Mul(missing, new(big.Rat).SetInt(parts))
	up, rest := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		up.Add(up, big.NewInt(1))
	}
	to.lack(new(big.Rat).SetFrac(up, parts), now)
}

// lack makes so much be missing at now.
func (m *Model) lack(missing *big.Rat, now limit.Time) {
	switch memory := m.memory.(type) {
	case *bucket:
		memory.begun, memory.since = true, now
		memory.tokens = new(big.Rat).Sub(memory.quota, missing)
	case *arrivals:
		memory.arrival = rat(0)
		memory.move(missing, now)
	}
}

// withUsed is a Model of the same limit of which exactly so much is used from now on. An open window stays open.
func (m *Model) withUsed(used uint64, now limit.Time) *Model {
	fresh := New(m.limit)
	if used == 0 {
		return fresh
	}
	switch {
	case m.limit.Count > 0:
		fresh.lack(rat(min(used, 2*m.limit.Quota)), now)
		return fresh
	case m.keepsWindow():
		if from, until := m.openWindow(now); until != 0 {
			fresh.memory = &carriedWindow{from: from, until: until, units: used, next: fresh.memory}
			return fresh
		}
	}
	fresh.memory.count(used, now)
	return fresh
}

func (m *Model) keepsWindow() bool { return countsWindows(m.limit) }

// stillCounts reports whether something taken at an instant could be given back.
func (m *Model) stillCounts(taken, now limit.Time) bool {
	other := m.copied()
	other.memory.refund(limit.MaxCost, taken, now)
	return other.memory.used(now).Cmp(m.memory.used(now)) != 0
}
