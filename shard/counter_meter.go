package shard

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// A meter is a counter's bill: the units that the policy has admitted on the key less those given back, for each
// period. It is no limit: it denies nothing, and neither a reset, nor a set, nor new numbers of a limit change it. A
// tier that lifts all limits, a limit in shadow and a limit at rest are billed like any other; a denial that is counted
// is not.
//
// No entry is written when a period ends. A period takes the units admitted in [start, end), by shard time; the next
// admission finds that the newest period has ended and begins another one, in the record that it writes anyway. So an
// untouched counter has closed its period at the end, and a reader sees this from the instants alone.
//
// From end + grace a period is final, and no decision changes it again: only a person may correct it
// (eval_correction.go). Until then units that are given back lower the period in which they were taken. Later they are
// a credit of the period in which they come back, so a hold that is open at final counts in full. Units that are spent
// above a hold belong to the period in which they are settled.

// maxBilled is where a period saturates.
const maxBilled = 1 << 62

// meter is a counter's bill under one name. A policy has one meter; others here were removed or renamed.
type meter struct {
	name string
	// since is the first instant that the meter bills; 0 means too long ago to matter. Units taken before give nothing
	// back: the meter was not in the policy yet, or the shard was restored from a backup.
	since limit.Time
	// pauses are the times when the policy did not have the meter, oldest first, except those too long ago. Units taken
	// in a pause give nothing back either.
	pauses  []pause
	periods []period // oldest first, contiguous, never empty
}

// pause is the time [from, until); until is limit.Forever as long as it lasts.
type pause struct{ from, until limit.Time }

// period is one period of a meter. All instants but revised are on whole seconds.
type period struct {
	start, end  limit.Time
	grace, keep limit.Span // from the end: until it is final, and until it may be forgotten
	units       uint64     // admitted less given back before it was final
	credits     uint64     // given back in it, of periods that were final
	corrections int64      // by hand: the sum of all
	revised     limit.Time // of the newest change; it grows with each
	recovered   bool       // a restore from a backup has lost a part
	zone        int64      // minutes that the meter's clock was ahead of UTC at the start, less than a day
}

const minutesOfDay = 24 * 60

// startsIn reports whether the period begins in a year, a month or a day of the zone that its meter had then.
func (p *period) startsIn(text string) bool {
	date := time.UnixMicro(int64(p.start)).UTC().Add(time.Duration(p.zone) * time.Minute)
	return strings.HasPrefix(date.Format(time.DateOnly), text)
}

func (p *period) final() limit.Time     { return p.end + limit.Time(p.grace) }
func (p *period) keptUntil() limit.Time { return p.end + limit.Time(p.keep) }

// meters are the meters of a counter, in the order in which they began. Their methods take the counter, for its policy,
// its holds and the mark of a restore.
type meters []meter

// newest returns the newest period.
func (m *meter) newest() *period { return &m.periods[len(m.periods)-1] }

// bill counts admitted units under the policy's meter, which may be nil.
func (c *counter) bill(terms *policy.Meter, units uint64, now limit.Time) {
	if units == 0 {
		return
	}
	mine := -1
	for i := range c.meters {
		if terms != nil && c.meters[i].name == terms.Name {
			mine = i
		} else {
			c.meters[i].pause(now)
		}
	}
	if terms == nil {
		return
	}
	if mine < 0 {
		mine = len(c.meters)
		c.meters = append(c.meters, meter{name: terms.Name, since: now})
	}
	m := &c.meters[mine]
	if m.paused() {
		m.pauses[len(m.pauses)-1].until = now
	}
	p := m.periodAt(c, now)
	p.units = min(p.units+units, maxBilled)
	p.revised = now
}

// pause records that the policy admits without the meter.
func (m *meter) pause(now limit.Time) {
	if !m.paused() {
		m.pauses = append(m.pauses, pause{now, limit.Forever})
	}
}

func (m *meter) paused() bool {
	n := len(m.pauses)
	return n > 0 && m.pauses[n-1].until == limit.Forever
}

// hasBilled reports whether units that the policy admitted at an instant were billed.
func (m *meter) hasBilled(taken limit.Time) bool {
	//mutant:credit-from-a-pause 2 //mutant:credit-from-before-the-meter 2
	return taken >= m.since &&
		!slices.ContainsFunc(m.pauses, func(p pause) bool { return p.from <= taken && taken < p.until })
}

// giveBack subtracts units from the bill at an instant; they were taken at taken.
func (ms meters) giveBack(c *counter, units uint64, taken, at limit.Time) {
	if units == 0 {
		return
	}
	for i := range ms {
		if m := &ms[i]; m.hasBilled(taken) {
			m.lower(c, units, taken, at)
		}
	}
}

// lower takes units off the period in which they were taken. If that is final, or no longer kept, they are a credit of
// the period that is open when they come back.
func (m *meter) lower(c *counter, units uint64, taken, at limit.Time) {
	for i := range m.periods {
		//mutant:closed-period-is-final //mutant:credit-to-any-period //mutant:final-period-changes
		if p := &m.periods[i]; p.start <= taken && taken < p.end && at < p.final() {
			p.units -= min(p.units, units)
			p.revised = max(p.revised, at)
			return
		}
	}
	p := m.periodAt(c, at)
	p.credits = min(p.credits+units, maxBilled)
	p.revised = max(p.revised, at)
}

// periodAt returns the period of a meter that is open at an instant, which is not before the newest one begins.
func (m *meter) periodAt(c *counter, at limit.Time) *period {
	if n := len(m.periods); n == 0 || at >= m.periods[n-1].end { //mutant:period-takes-what-comes-after
		m.periods = append(m.periods, m.nextPeriod(c, at))
	}
	return m.newest()
}

// nextPeriod returns the period that begins at an instant, by the policy. It begins no earlier than the end of the one
// before, even if the policy's calendar has changed (R18a). A meter that the policy no longer has continues in steps of
// its newest period, for credits.
func (m *meter) nextPeriod(c *counter, at limit.Time) period {
	var p period
	if terms := c.policy.Meter; terms != nil && terms.Name == m.name {
		p.start, p.end = terms.Cycle.Period(at)
		kept := p.end
		for range terms.Retain {
			_, kept = terms.Cycle.Period(kept)
		}
		p.grace = terms.Grace
		// A bill is final for as long as a period, so that it is listed and pushed, however long the grace is.
		//mutant:forgotten-when-it-is-final
		p.keep = max(limit.Span(kept-p.end), terms.Grace+limit.Span(p.end-p.start), wholeSeconds(c.policy.Retention))
	}
	if n := len(m.periods); n > 0 {
		last := &m.periods[n-1]
		if p.end == 0 {
			length := last.end - last.start
			p = period{start: last.end + (at-last.end)/length*length, grace: last.grace, keep: last.keep}
			p.end = p.start + length
		}
		p.start = max(p.start, last.end) //mutant:periods-overlap
		p.zone = last.zone
	}
	if terms := c.policy.Meter; terms != nil && terms.Name == m.name {
		_, ahead := time.UnixMicro(int64(p.start)).In(terms.Cycle.Zone.Location()).Zone()
		p.zone = int64(ahead / 60) //mutant:period-changes-its-zone
	}
	p.recovered = c.mark != nil && p.start < c.mark.full.At //mutant:new-period-hides-restore
	return p
}

// wholeSeconds rounds a span up to what the record of a period can hold.
func wholeSeconds(s limit.Span) limit.Span { return (s + 1e6 - 1) / 1e6 * 1e6 }

// tidy removes periods that are no longer kept, and parts of pauses that no longer matter.
func (ms meters) tidy(c *counter, now limit.Time) meters {
	// Nothing older is given back, except holds.
	oldest, old := limit.Forever, now-c.namedFor()
	for _, h := range c.extras.openHolds() {
		oldest = min(oldest, h.taken)
	}
	for i := range ms {
		m := &ms[i]
		if m.since <= min(old, oldest) {
			m.since = 0
		}
		for len(m.pauses) > 0 && m.pauses[0].until <= min(old, oldest) {
			m.pauses = m.pauses[1:]
		}
		for len(m.periods) > 0 && m.periods[0].keptUntil() <= now && (len(m.periods) > 1 || oldest == limit.Forever) {
			m.periods = m.periods[1:]
		}
	}
	return slices.DeleteFunc(ms, func(m meter) bool { return len(m.periods) == 0 })
}

// until returns the instant from which no period need be remembered, even if all open holds become credits when they
// expire.
func (ms meters) until(c *counter) (until limit.Time) {
	last := c.extras.lastExpiry()
	for i := range ms {
		m := &ms[i]
		for j := range m.periods { // a policy may have shortened since how long periods are kept
			until = max(until, m.periods[j].keptUntil())
		}
		if last >= m.newest().end && last != limit.Forever { //mutant:credit-forgotten-early
			p := m.nextPeriod(c, last) // not as long as the newest, which may have begun late
			until = max(until, p.keptUntil())
		}
	}
	return until
}

// grow reports whether the next admission adds a period to the record.
func (ms meters) grow(terms *policy.Meter, now limit.Time) bool {
	if terms == nil {
		return false
	}
	i := slices.IndexFunc(ms, func(m meter) bool { return m.name == terms.Name })
	return i < 0 || now >= ms[i].newest().end
}

// recover marks the periods of a counter that may have lost decisions since the backup. Units taken before the restore
// give nothing back, as for limits.
func (ms meters) recover(backup, at limit.Time) {
	for i := range ms {
		m := &ms[i]
		m.since, m.pauses = at, nil
		for j := range m.periods {
			p := &m.periods[j]
			if p.final() > backup && !p.recovered {
				p.recovered, p.revised = true, at
			}
		}
	}
}

// code is the meters of a counter, at least one. Instants and lengths are in seconds, and each start is counted from
// the end before. A reader need not copy the name in terms, which may be nil.
func (ms *meters) code(c *codec.Codec, terms *policy.Meter) {
	n := c.CountTo(len(*ms), c.Left()/8) // a meter has more than eight bytes
	if c.Reading() {
		*ms = make(meters, n)
	}
	for i := range *ms {
		(*ms)[i].code(c, terms)
	}
	if n == 0 {
		c.Fail()
	}
}

func (m *meter) code(c *codec.Codec, terms *policy.Meter) {
	c.Text(&m.name)
	hasSince, paused := m.since != 0, len(m.pauses) > 0
	if c.Flags(&hasSince, &paused); hasSince {
		codeTime(c, &m.since)
	}
	if paused {
		m.codePauses(c)
	}
	n := c.CountTo(len(m.periods), c.Left()/8) // likewise
	if c.Reading() {
		if m.periods = make([]period, n, n+1); terms != nil && m.name == terms.Name {
			m.name = terms.Name
		} else {
			m.name = strings.Clone(m.name)
		}
	}
	before := limit.Time(0)
	for i := range m.periods {
		m.periods[i].code(c, before)
		before = m.periods[i].end
	}
	if n == 0 {
		c.Fail()
	}
}

func (m *meter) codePauses(c *codec.Codec) {
	codec.List(c, &m.pauses, math.MaxInt, func(p *pause) {
		codeTime(c, &p.from)
		if codec.Uint(c, &p.until, math.MaxInt64); p.until <= p.from {
			c.Fail()
		}
	})
	if len(m.pauses) == 0 {
		c.Fail()
	}
}

func (p *period) code(c *codec.Codec, before limit.Time) {
	hasCredits, corrected := p.credits != 0, p.corrections != 0
	start, long, revised := p.start-before, p.end-p.start, p.revised-p.start
	c.Flags(&hasCredits, &p.recovered, &corrected)
	seconds(c, &start)
	seconds(c, &long)
	seconds(c, &p.grace)
	seconds(c, &p.keep)
	c.Uint64(&p.units)
	if hasCredits {
		c.Uint64(&p.credits)
	}
	if corrected {
		codec.Int(c, &p.corrections)
	}
	codec.Int(c, &p.zone)
	if codeTime(c, &revised); !c.Reading() {
		return
	}
	p.start = before + start
	p.end, p.revised = p.start+long, p.start+revised
	if long == 0 || p.end > limit.MaxTime || p.units > maxBilled || p.credits > maxBilled ||
		p.corrections < -maxCorrected || p.corrections > maxCorrected || p.zone <= -minutesOfDay ||
		p.zone >= minutesOfDay {
		c.Fail()
	}
}

// seconds is an instant or a length of whole seconds.
func seconds[T limit.Time | limit.Span](c *codec.Codec, v *T) {
	n := uint64(*v) / 1e6
	if codec.Uint(c, &n, uint64(limit.MaxTime)/1e6/2); c.Reading() {
		*v = T(n) * 1e6
	}
}
