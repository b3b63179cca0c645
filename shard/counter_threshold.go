package shard

import (
	"iter"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// A threshold is crossed when units are counted and the use of its limit rises from below it to at least it. Before and
// after are compared under the same numbers and at the same instant, so neither a new window, nor new numbers, nor a
// restore cross anything. Everything that adds units crosses: an admitted request, a hold, a leg, an excess over a
// hold, a denial that is counted, a set or an add by hand. A denial that is not counted writes nothing and fires
// nothing.
//
// A crossing leaves a mark in the counter, in the same entry, until its window ends. While the mark is there, the same
// threshold in units is silent: after a refund, a reset, a restart of the owner. Another number of units is another
// threshold: a changed one, or a share of a raised quota.
//
// Windows and calendars have their own window. The other limits have none that contains all units: for them it is the
// aligned period (floor(now / period)) of the crossing; for a bucket, the period is the time in which it fills. A
// lifetime limit has one for ever.

// marksMost bounds the marks of a counter. Only a key with a frequently changing quota has more; then the oldest is
// forgotten, and if it is crossed again its event comes again, with the same id.
const marksMost = 128

// marks are the thresholds that have fired in a counter, encoded as in its record: each with the name of the limit, the
// threshold in units, and the window: its end, 0 for never, and its length if it has an end. So a decision that crosses
// nothing decodes nothing.
type marks []byte

// mark is one of them. The name shares the memory of the marks.
type mark struct {
	limit        string
	units        uint64     // the threshold in units, also of a share of the quota
	starts, ends limit.Time // of the window; limit.Forever if it never ends, and it then starts at 0
}

func (m *mark) code(c *codec.Codec) {
	c.Text(&m.limit)
	c.Uint64(&m.units)
	ends, long := m.ends, m.ends-m.starts
	if ends == limit.Forever {
		ends = 0
	}
	if codeTime(c, &ends); ends != 0 {
		codeTime(c, &long)
	}
	switch {
	case !c.Reading():
	case ends == 0:
		m.ends = limit.Forever
	default:
		m.starts, m.ends = ends-long, ends
	}
}

// codeMarks reads the marks of a record, at least one, to its end.
func codeMarks(c *codec.Codec) {
	for more := true; more; more = c.Left() > 0 {
		var m mark
		if m.code(c); m.units == 0 || m.limit == "" || m.starts < 0 {
			c.Fail()
		}
	}
}

func (m *mark) append(b []byte) []byte {
	c := codec.Writer(b)
	m.code(&c)
	return c.Written()
}

// all iterates over the marks.
func (ms marks) all() iter.Seq[mark] {
	return func(yield func(mark) bool) {
		for c := codec.Over(ms); c.Left() > 0; {
			var m mark
			if m.code(&c); c.Failed() || !yield(m) {
				return
			}
		}
	}
}

// has reports whether the threshold has fired in a window that has not ended, and is silent in the one that ends at
// ends. It may be an earlier window, which a refund or a reset has ended early. A window that ends later no longer
// belongs to the limit: for example, a limit of a year has become one of a day.
func (ms marks) has(name string, units uint64, now, ends limit.Time) bool {
	for m := range ms.all() {
		//mutant:mark-for-all-limits //mutant:threshold-fires-each-crossing //mutant:threshold-fires-once-for-all
		//mutant:mark-of-a-longer-window
		if m.units == units && m.ends > now && m.ends <= ends && m.limit == name {
			return true
		}
	}
	return false
}

// FiredThreshold is a threshold that has fired in the window [Starts, Ends).
type FiredThreshold struct {
	Policy, Limit, Key string
	Units              uint64 // the threshold in units
	// Percent is of the present quota; 0 if it is none of the limit's present thresholds that are shares.
	Percent      uint32
	Starts, Ends limit.Time // Ends is limit.Forever if the window never ends
}

func (c *MessageCodec) fired(f *FiredThreshold) {
	c.Text(&f.Policy, &f.Limit, &f.Key)
	c.Uint64(&f.Units)
	codec.Uint(&c.Codec, &f.Percent, math.MaxUint32)
	codec.Uint(&c.Codec, &f.Starts, math.MaxUint64)
	codec.Uint(&c.Codec, &f.Ends, math.MaxUint64)
}

// fired lists the thresholds of the policy's limits that have fired in windows that have not ended.
func (ch *charge) fired(e *Entry, now limit.Time) (all []FiredThreshold) {
	for m := range ch.counter.marks.all() {
		for i := range ch.limits {
			l := &ch.limits[i]
			if m.ends <= now || m.limit != l.Name { //mutant:get-tells-ended-windows
				continue
			}
			f := FiredThreshold{
				Policy: e.Policy,
				Limit:  l.Name,
				Key:    e.Key,
				Units:  m.units,
				Starts: m.starts,
				Ends:   m.ends,
			}
			for _, t := range l.Thresholds {
				if t.Percent != 0 && !l.Unlimited && t.Of(l.Quota) == m.units {
					f.Percent = t.Percent
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// showFired sets the thresholds that have fired. Only keys that have crossed some have any.
func (e *evaluation) showFired(r *Request, d *Decision) {
	for i := range e.charges {
		if fired := e.charges[i].fired(&r.Entries[i], e.at.Now); fired != nil {
			d.system().Fired = append(d.system().Fired, fired...)
		}
	}
}

// tidy removes the marks of windows that have ended, and the oldest of too many.
func (ms marks) tidy(now limit.Time) marks {
	count, ended := 0, 0
	for m := range ms.all() {
		if count++; m.ends <= now {
			ended++
		}
	}
	drop := max(0, count-ended-marksMost)
	if ended+drop == 0 {
		return ms
	}
	var kept marks
	for m := range ms.all() {
		switch {
		case m.ends <= now: //mutant:marks-end-early
		case drop > 0:
			drop--
		default:
			kept = m.append(kept)
		}
	}
	return kept
}

// until returns the instant from which no mark need be remembered.
func (ms marks) until() (until limit.Time) {
	for m := range ms.all() {
		until = max(until, m.ends)
	}
	return until
}

// setCounted is set for a state after counted units: it records the thresholds that they cross.
func (ch *charge) setCounted(i int, s limit.State, now limit.Time) {
	c, l := ch.counter, &ch.limits[i]
	if len(l.Thresholds) == 0 {
		c.set(i, l, s, now)
		return
	}
	before := limit.Status(l.Limit, c.at(i, l, now), now).Used
	c.set(i, l, s, now)
	after := limit.Status(l.Limit, s, now)
	ch.crossAll(l, before, &after, now)
}

// crossLeased records the thresholds that a lease of so many units crosses.
func (ch *charge) crossLeased(i int, units uint64, now limit.Time) {
	l := &ch.limits[i]
	if len(l.Thresholds) == 0 {
		return
	}
	s := ch.counter.at(i, l, now)
	_, after := limit.Add(l.Limit, s, units, now)
	ch.crossAll(l, limit.Status(l.Limit, s, now).Used, &after, now) //mutant:lease-crosses-nothing
}

// crossAll records the thresholds that lie between two uses of a limit. What leases hold is used before and after,
// and is added to after.Used.
func (ch *charge) crossAll(l *policy.Limit, before uint64, after *limit.Verdict, now limit.Time) {
	leased := ch.counter.extras.leased()
	before, after.Used = before+leased, after.Used+leased
	for _, t := range l.Thresholds {
		//mutant:lifted-limit-has-shares
		if l.Unlimited && t.Percent != 0 { // a tier has lifted the limit, so there is no quota
			continue
		}
		if units := t.Of(l.Quota); before < units && units <= after.Used { //mutant:threshold-fires-while-exceeded
			ch.cross(l, t, units, after, now)
		}
	}
}

// cross records a crossing, unless the threshold has fired in the window before.
func (ch *charge) cross(l *policy.Limit, t policy.Threshold, units uint64, after *limit.Verdict, now limit.Time) {
	c := ch.counter
	if l.Algorithm == limit.Concurrency {
		return
	}
	starts, ends := thresholdWindow(&l.Limit, after, now)
	if c.marks.has(l.Name, units, now, ends) {
		return
	}
	m := mark{limit: l.Name, units: units, starts: starts, ends: ends}
	c.marks = m.append(c.marks[:len(c.marks):len(c.marks)]) // it may share the memory of the record
	x := Event{
		Kind:      EventThreshold,
		Shadow:    l.Shadow,
		Limit:     l.Name,
		Threshold: t,
		Units:     units,
		Used:      after.Used,
		Start:     starts,
		End:       ends,
	}
	if !l.Unlimited {
		x.Quota = l.Quota
	}
	c.crossed = append(c.crossed, x)
}

// thresholdWindow returns the window of a limit in which a threshold fires once. The verdict is of units that count.
func thresholdWindow(l *limit.Limit, v *limit.Verdict, now limit.Time) (starts, ends limit.Time) {
	period := l.Period
	switch l.Algorithm {
	case limit.FixedWindow, limit.FixedWindowFirstHit, limit.Calendar:
		return v.WindowStart, v.ResetAt
	case limit.Lifetime, limit.Unlimited:
		return 0, limit.Forever
	case limit.TokenBucket, limit.GCRA:
		period = max(period, l.FillSpan())
	}
	starts = now - now%limit.Time(period)
	if period > limit.MaxPeriod || starts > limit.MaxTime-limit.Time(period) {
		return 0, limit.Forever
	}
	return starts, starts + limit.Time(period)
}
