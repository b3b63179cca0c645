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

// hits is a history. A hit no longer counts once it lies keep cells back.
type hits struct {
	all  []hit
	keep int64
}

func (h *hits) record(cell int64, units uint64) {
	h.all = append(h.all, hit{cell, units})
	for h.all[0].cell <= cell-h.keep {
		h.all = h.all[1:]
	}
}

// sum adds up the cells first..last.
func (h *hits) sum(first, last int64) uint64 {
	var units uint64
	for _, hit := range h.all {
		if first <= hit.cell && hit.cell <= last {
			units += hit.units
		}
	}
	return units
}

// giveBack removes units from one cell, as far as it has any.
func (h *hits) giveBack(cell int64, units uint64) {
	for i := range h.all {
		if h.all[i].cell == cell {
			back := min(units, h.all[i].units)
			h.all[i].units -= back
			units -= back
		}
	}
}

// cells counts the current cell and the keep - 1 cells before it. Cells are as wide as a bucket, or one instant: then
// it is all hits within one period, excluding the instant exactly one period ago.
type cells struct {
	hits
	width limit.Span
}

func (c *cells) cell(at limit.Time) int64 { return int64(at) / int64(c.width) }

func (c *cells) used(at limit.Time) *big.Rat {
	return rat(c.sum(c.cell(at)-c.keep+1, c.cell(at)))
}
func (c *cells) count(units uint64, at limit.Time)        { c.record(c.cell(at), units) }
func (c *cells) refund(units uint64, taken, _ limit.Time) { c.giveBack(c.cell(taken), units) }
func (c *cells) windowStart(limit.Time) limit.Time        { return 0 }

// epochWindow counts what was spent in the same floor(t / period): a single cell.
type epochWindow struct{ cells }

func (w *epochWindow) windowStart(now limit.Time) limit.Time {
	return limit.Time(w.cell(now) * int64(w.width))
}

// anchoredWindow counts from the hit that opened the window until one period after it.
type anchoredWindow struct {
	period limit.Span
	open   bool
	since  limit.Time
	units  []uint64
}

func (w *anchoredWindow) covers(at limit.Time) bool {
	return w.open && w.since <= at && at < w.since+limit.Time(w.period)
}

func (w *anchoredWindow) total() uint64 {
	var total uint64
	for _, units := range w.units {
		total += units
	}
	return total
}

func (w *anchoredWindow) used(at limit.Time) *big.Rat {
	if !w.covers(at) {
		return rat(0)
	}
	return rat(w.total())
}

func (w *anchoredWindow) count(units uint64, at limit.Time) {
	if !w.covers(at) {
		w.open, w.since, w.units = true, at, nil
	}
	w.units = append(w.units, units)
}

func (w *anchoredWindow) refund(units uint64, taken, now limit.Time) {
	if !w.covers(now) || !w.covers(taken) {
		return
	}
	rest := w.total() - min(units, w.total())
	w.units = []uint64{rest}
	w.open = rest > 0
}

func (w *anchoredWindow) windowStart(now limit.Time) limit.Time {
	if !w.covers(now) {
		return 0
	}
	return w.since
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

// tally counts everything.
type tally struct{ units []uint64 }

func (t *tally) used(limit.Time) *big.Rat {
	total := new(big.Int)
	for _, units := range t.units {
		total.Add(total, new(big.Int).SetUint64(units))
	}
	return new(big.Rat).SetInt(total)
}

func (t *tally) count(units uint64, at limit.Time) {
	t.units = append(t.units, units)
	if len(t.units) > 16 {
		t.units = []uint64{t.used(at).Num().Uint64()}
	}
}

func (t *tally) refund(units uint64, _, now limit.Time) {
	total := t.used(now).Num().Uint64()
	t.units = []uint64{total - min(units, total)}
}
func (t *tally) windowStart(limit.Time) limit.Time { return 0 }
