package shard

import (
	"math"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

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

// codeTime is an instant of shard time.
func codeTime(c *codec.Codec, t *limit.Time) { codec.Uint(c, t, uint64(limit.MaxTime)) }

// seconds is an instant or a length of whole seconds.
func seconds[T limit.Time | limit.Span](c *codec.Codec, v *T) {
	n := uint64(*v) / 1e6
	if codec.Uint(c, &n, uint64(limit.MaxTime)/1e6/2); c.Reading() {
		*v = T(n) * 1e6
	}
}
