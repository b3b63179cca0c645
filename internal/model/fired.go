package model

import (
	"math/big"
	"slices"

	"github.com/stint-io/stint/limit"
)

// Fired is a threshold that fired. Every one is remembered for ever, with its window: no other like it may fire.
type Fired struct {
	Policy, Key, Limit string
	Units              uint64
	Start, End         limit.Time
	At                 limit.Time
	Used, Quota        uint64
}

// uses is what is used on each limit of some charges at an instant, under the numbers of then; nil: the request is refused.
func (h *History) uses(d *Decided) (uses [][]uint64) {
	for _, c := range d.Charges {
		a, one := h.openOne(c, d.Place.At), []uint64(nil)
		if (d.Op.deciding() || d.Op == Count) && a.unknown() {
			return nil
		}
		for i := range a.limits {
			one = append(one, a.at(i, d.Place.At).model.numbers(d.Place.At).Used)
		}
		uses = append(uses, one)
	}
	return uses
}

// counts reports whether the operation may add units.
func (o Op) counts() bool {
	return !slices.Contains([]Op{Peek, Get, Reset, Block, Unblock, PutOverride, DeleteOverride, Tally, ReadTally, Forget, CorrectUsage}, o)
}

// fire compares what is used after a decision with what was used before.
func (h *History) fire(d *Decided, before [][]uint64) {
	now := d.Place.At
	for n, a := range h.open(d, now) {
		if a.Inline != nil {
			continue
		}
		if d.Op == Settle && d.Settlement.excess(n, h.settled(d, a)) == 0 {
			continue // nothing is counted, though a bucket that comes to rest may begin with more used than it had
		}
		for i := range a.limits {
			l, m := &a.limits[i], a.at(i, now).model
			used := m.numbers(now).Used
			for _, t := range l.Thresholds {
				f := Fired{Policy: a.Policy, Key: a.Key, Limit: l.Name, Units: t.Units, At: now, Used: used, Quota: l.Quota}
				if t.Percent > 0 {
					f.Units = ceiling(new(big.Rat).Mul(big.NewRat(int64(t.Percent), 100), rat(l.Quota)))
				}
				if l.Unlimited {
					f.Quota = 0
				}
				if l.Algorithm == limit.Concurrency || l.Unlimited && t.Percent > 0 || before[n][i] >= f.Units || used < f.Units {
					continue
				}
				f.Start, f.End = m.eventWindow(now)
				if !slices.ContainsFunc(h.fired, f.sameAs) {
					h.fired = append(h.fired, f)
				}
			}
		}
	}
}

func (f Fired) sameAs(o Fired) bool {
	f.At, f.Used, f.Quota = o.At, o.Used, o.Quota
	return f == o
}

// eventWindow is the window in which a threshold fires once.
func (m *Model) eventWindow(now limit.Time) (start, end limit.Time) {
	period := int64(m.limit.Period)
	if w, ok := m.memory.(window); ok {
		start, end, _ = w.openAt(now)
		return start, end
	}
	if period == 0 {
		return 0, limit.Forever
	}
	if m.limit.Count > 0 {
		fills := new(big.Rat).Mul(rat(m.limit.Quota), big.NewRat(period, int64(m.limit.Count)))
		period = max(period, int64(ceiling(fills)))
	}
	start = now
	for int64(start)%period != 0 {
		start -= limit.Time(int64(start) % period)
	}
	return start, start + limit.Time(period)
}

// Fired returns every threshold that has fired, in order.
func (h *History) Fired() []Fired { return h.fired }

// forgetFired makes a key's thresholds fire again.
func (h *History) forgetFired(key string) {
	h.fired = slices.DeleteFunc(h.fired, func(f Fired) bool { return f.Key == key })
}
