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
	Start, End         limit.Time // the window in which it fires once
	At                 limit.Time
	Used, Quota        uint64 // Quota 0: unlimited
}

// counting counts units on a limit, and records the thresholds that its use reaches. Other changes of the use cross
// none: a bucket that comes to rest by a refund may begin with more used than it had.
func (a *openCharge) counting(i int, now limit.Time, count func(*Model)) {
	l, m := &a.limits[i], a.at(i, now).model
	if len(l.Thresholds) == 0 || l.Algorithm == limit.Concurrency {
		count(m)
		return
	}
	before := m.numbers(now).Used
	count(m)
	used := m.numbers(now).Used
	for _, t := range l.Thresholds {
		f := Fired{Policy: a.Policy, Key: a.Key, Limit: l.Name, Units: t.Units, At: now, Used: used, Quota: l.Quota}
		if t.Percent > 0 {
			f.Units = ceiling(new(big.Rat).Mul(big.NewRat(int64(t.Percent), 100), rat(l.Quota)))
		}
		if l.Unlimited {
			f.Quota = 0
		}
		if (t.Percent == 0 || !l.Unlimited) && before < f.Units && f.Units <= used {
			f.Start, f.End = m.eventWindow(now)
			a.crossed = append(a.crossed, f)
		}
	}
}

// fire records the thresholds that the request has crossed, except those that have fired in their window before.
func (h *History) fire(a *openCharge) {
	for _, f := range a.crossed {
		if !slices.ContainsFunc(h.fired, f.silencedBy) {
			h.fired = append(h.fired, f)
		}
	}
	a.crossed = nil
}

// silencedBy reports whether the same threshold has fired before in a window that has not ended, whichever one is open,
// and that is no longer than the limit's window now.
func (f Fired) silencedBy(o Fired) bool {
	return f.Policy == o.Policy && f.Key == o.Key && f.Limit == o.Limit && f.Units == o.Units && f.At < o.End &&
		o.End <= f.End
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
