package policy

import (
	"strconv"

	"github.com/stint-io/stint/limit"
)

// Meter is the bill of a policy's keys: for each period of a calendar, what was admitted less what was given back. It denies
// nothing, and nothing that changes a limit (a reset, a set, OnChange) changes it.
//
// A period is closed at its end and final Grace later. Until then a give-back lowers the period that it was taken in; later it
// is a credit of the period that is open.
type Meter struct {
	Name   string
	Cycle  *limit.Cycle
	Retain uint64     // periods for which a period is kept after its end, 1 to 36
	Grace  limit.Span // from the end of a period until it is final, in whole seconds, 1 s to MeterGraceMax
}

// The numbers of a meter that does not set them, and their bounds.
const (
	MeterRetain               = 3
	MeterRetainMax            = 36
	MeterGrace     limit.Span = 15 * 60 * 1_000_000
	// MeterGraceMax is 31 days: as long as a hold may live.
	MeterGraceMax limit.Span = 31 * 24 * hour
)

func (d *decoder) meter(v value) *Meter {
	f := d.fields(v, "name", "calendar", "retain", "grace")
	d.require(v, f, "name", "calendar")
	m := &Meter{Retain: MeterRetain, Grace: MeterGrace}
	d.text(f["name"], &m.Name)
	if calendar, ok := f["calendar"]; ok {
		m.Cycle = d.calendar(calendar)
	}
	d.number(f["retain"], &m.Retain)
	d.span(f["grace"], &m.Grace)
	return m
}

// meter checks the numbers of a meter. The fields of its calendar are those of a limit's.
func (c *checker) meter() {
	m := c.policy.Meter
	if m == nil {
		return
	}
	c.name("meter.name", m.Name)
	if m.Cycle != nil {
		c.numbers("meter", limit.Limit{Algorithm: limit.Calendar, Quota: 1, Cycle: m.Cycle}, limitField)
	}
	if m.Retain < 1 || m.Retain > MeterRetainMax {
		c.fail("meter.retain", "must be 1 to %d: the number of periods for which a closed one can still be read", MeterRetainMax)
	}
	if m.Grace < 1 || m.Grace > MeterGraceMax || m.Grace%(hour/3600) != 0 {
		c.fail("meter.grace", "must be whole seconds, at least 1s and at most 31 days (%s)", SpanText(MeterGraceMax))
	}
}

// meterText returns a meter in one line.
func meterText(m *Meter) string {
	var fields, cycle fieldList
	fields.add("name", plain(m.Name))
	cycleFields(&cycle, m.Cycle)
	fields.add("calendar", cycle.String())
	if m.Retain != MeterRetain {
		fields.add("retain", strconv.FormatUint(m.Retain, 10))
	}
	if m.Grace != MeterGrace {
		fields.add("grace", SpanText(m.Grace))
	}
	return fields.String()
}

// HasMeters reports whether any of the policies has a meter.
func (s *Set) HasMeters() bool {
	for _, p := range s.byName {
		if p.Meter != nil {
			return true
		}
	}
	return false
}
