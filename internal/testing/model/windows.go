package model

import (
	"math/big"

	"github.com/stint-io/stint/limit"
)

// hit is the units spent in one cell of time: an instant, a bucket or a window, numbered from the Unix epoch.
type hit struct {
	cell  int64
	units uint64
}

// cells is a history. It counts the current cell and the keep - 1 cells before it. Cells are as wide as a bucket, or
// one instant: then it is all hits within one period, excluding the instant exactly one period ago.
type cells struct {
	all   []hit // in the order of their cells, of which each may have several
	keep  int64
	width limit.Span
}

func (c *cells) cell(at limit.Time) int64 { return int64(at) / int64(c.width) }

// sum adds up the cells first..last.
func (c *cells) sum(first, last int64) uint64 {
	var units uint64
	for _, hit := range c.all {
		if first <= hit.cell && hit.cell <= last {
			units += hit.units
		}
	}
	return units
}

func (c *cells) used(at limit.Time) *big.Rat {
	return rat(c.sum(c.cell(at)-c.keep+1, c.cell(at)))
}

func (c *cells) count(units uint64, at limit.Time) {
	cell := c.cell(at)
	c.all = append(c.all, hit{cell, units})
	for c.all[0].cell <= cell-c.keep {
		c.all = c.all[1:]
	}
}

// refund removes units from one cell, as far as it has any.
func (c *cells) refund(units uint64, taken, _ limit.Time) {
	for i := range c.all {
		if c.all[i].cell == c.cell(taken) {
			back := min(units, c.all[i].units)
			c.all[i].units -= back
			units -= back
		}
	}
}

// epochWindow counts what was spent in the same floor(t / period): a single cell.
type epochWindow struct{ cells }

func (w *epochWindow) openAt(now limit.Time) (from, until limit.Time, units uint64) {
	n := w.cell(now)
	return limit.Time(n * int64(w.width)), limit.Time((n + 1) * int64(w.width)), w.sum(n, n)
}

// anchoredWindow counts from the hit that opened the window until one period after it.
type anchoredWindow struct {
	period limit.Span
	open   bool
	since  limit.Time
	units  uint64
}

func (w *anchoredWindow) covers(at limit.Time) bool {
	return w.open && w.since <= at && at < w.since+limit.Time(w.period)
}

func (w *anchoredWindow) used(at limit.Time) *big.Rat {
	if !w.covers(at) {
		return rat(0)
	}
	return rat(w.units)
}

func (w *anchoredWindow) count(units uint64, at limit.Time) {
	if !w.covers(at) {
		w.open, w.since, w.units = true, at, 0
	}
	w.units += units
}

func (w *anchoredWindow) refund(units uint64, taken, now limit.Time) {
	if w.covers(now) && w.covers(taken) {
		w.units -= min(units, w.units)
		w.open = w.units > 0
	}
}

func (w *anchoredWindow) openAt(now limit.Time) (from, until limit.Time, units uint64) {
	if !w.covers(now) {
		return 0, 0, 0
	}
	return w.since, w.since + limit.Time(w.period), w.units
}

// weightedWindow counts the current window, and the share of the previous one that is still within one period of now.
type weightedWindow struct{ cells }

func (w *weightedWindow) used(at limit.Time) *big.Rat {
	n := w.cell(at)
	elapsed := int64(at) - n*int64(w.width)
	share := big.NewRat(int64(w.width)-elapsed, int64(w.width))
	weighted := share.Mul(share, rat(w.sum(n-1, n-1)))
	return weighted.Add(weighted, rat(w.sum(n, n)))
}
