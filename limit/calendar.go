package limit

import "time"

// calendar counts units in consecutive periods of a Cycle. Periods differ in length, because months do and because days
// do when the clocks change, so the State keeps both ends of the open period.
//
// State: T is the end of the open period, as an absolute instant. No other period begins before T, even if the numbers
// of the limit or the rules of the time zone have changed since. B is the beginning of the period and A is its count.
type calendar struct{ fixedWindow }

func (calendar) add(l Limit, s State, units uint64, now Time) State {
	if s.T == 0 {
		start, end := l.Cycle.Period(now)
		s.T, s.B = end, uint64(start)
	}
	s.A = sum(s.A, units)
	return s
}

func (calendar) full(l Limit, found State, f Full) State {
	start, end := l.Cycle.Period(f.end())
	return fuller(State{T: end, A: l.Quota, B: uint64(start)}, found)
}

func (calendar) status(l Limit, s State, now Time) Verdict {
	if s.T != 0 {
		return Verdict{Used: s.A, WindowStart: Time(s.B), ResetAt: s.T}
	}
	start, _ := l.Cycle.Period(now)
	return Verdict{WindowStart: start, ResetAt: now}
}

// Cycle defines the periods of a Calendar limit: Every units of the calendar in a time zone.
//
// A period is half-open, and each period begins where the one before ends. Periods are numbered from a fixed origin, so
// that with Every above 1 the first use of a key does not matter:
//
//   - Day: from 1970-01-01, local.
//   - Week: from the first WeekStart on or after 1970-01-01, local.
//   - Month, Year: from the year 0. A period begins on AnchorDay, or on the month's last day if the month has no such
//     day. A Year begins in January.
//   - Minute, Hour: from 1970-01-01 00:00 as the zone's clock shows it. A period begins whenever the clock reaches a
//     multiple of Every units, or is set forward past one. So an hour that the clock shows twice is two periods, and
//     where the clock changes by whole hours every period of one hour lasts an hour.
//
// A Day, and every unit made of days, begins at the first instant of that day. This is midnight, or the instant at
// which the clock was set forward if that skipped midnight, or the first of two if the clock shows midnight twice. No
// period begins before the Unix epoch.
type Cycle struct {
	Unit  Unit
	Every uint16 // units in one period, at least 1
	// AnchorDay is for Month and Year: the day of the month on which a period begins, 1 to 31, clamped to the month's
	// last; else 0.
	AnchorDay uint8
	WeekStart uint8 // Week: the ISO day on which it begins, 1 (Monday) to 7 (Sunday); else 0
	Zone      *Zone // from LoadZone
}

// Unit is a unit of the calendar. Its numbers are stored in logs and snapshots: append new ones, never renumber.
type Unit uint8

// The units.
const (
	Minute Unit = 1
	Hour   Unit = 2
	Day    Unit = 3
	Week   Unit = 4
	Month  Unit = 5
	Year   Unit = 6
)

// equal treats two zones of one name as the same zone, even if they were loaded separately.
func (c *Cycle) equal(other *Cycle) bool {
	same := *other
	same.Zone = c.Zone
	return *c == same && c.Zone.equal(other.Zone)
}

// maxEvery keeps a period within 100 years, and Every within its 16 bits.
var maxEvery = [...]uint16{Minute: 65_535, Hour: 65_535, Day: 36_500, Week: 5_200, Month: 1_200, Year: 100}

// Period returns the period that contains now: [start, end), both on whole seconds. It may be called concurrently.
func (c *Cycle) Period(now Time) (start, end Time) {
	at := int64(now / microseconds)
	var from, to int64
	if c.Unit <= Hour {
		from, to = c.clockPeriod(at)
	} else {
		from, to = c.datePeriod(at)
	}
	return max(0, Time(from)*microseconds), Time(to) * microseconds
}

// Below, instants are whole seconds since the Unix epoch: every change of a zone's offset falls on a whole second.

const (
	microseconds  = Time(1_000_000) // per second
	daySeconds    = 24 * 3600
	maxZoneOffset = 26 * 3600 // more than any zone's offset from UTC has ever been
)

// datePeriod returns the newest period that has begun at an instant. The local date of the instant leads to it
// directly, except where a clock was set back past midnight or a zone skipped a day.
func (c *Cycle) datePeriod(at int64) (start, end int64) {
	date := time.Unix(at, 0).In(c.Zone.location)
	n := c.number(date.Date())
	for start = c.begin(n); start > at; start = c.begin(n) {
		n--
	}
	for end = c.begin(n + 1); end <= at; end = c.begin(n + 1) {
		n, start = n+1, end
	}
	return start, end
}

// number returns the period of a date, as if periods of months began on the first.
func (c *Cycle) number(year int, month time.Month, day int) int64 {
	every := int64(c.Every)
	switch c.Unit {
	case Year:
		return floorDiv(int64(year), every)
	case Month:
		return floorDiv(int64(year)*12+int64(month-1), every)
	case Week:
		return floorDiv(dayNumber(year, month, day)-c.firstWeek(), 7*every)
	}
	return floorDiv(dayNumber(year, month, day), every)
}

// begin returns the first instant of a period.
func (c *Cycle) begin(number int64) int64 {
	first := number * int64(c.Every)
	var day int64
	switch c.Unit {
	case Year:
		day = c.anchorIn(first * 12)
	case Month:
		day = c.anchorIn(first)
	case Week:
		day = c.firstWeek() + 7*first
	default:
		day = first
	}
	return c.Zone.reaches(day * daySeconds)
}

// anchorIn returns the day that AnchorDay means in a month. Months are counted from the year 0.
func (c *Cycle) anchorIn(month int64) int64 {
	year, inYear := floorDiv(month, 12), month-12*floorDiv(month, 12)
	first := dayNumber(int(year), time.Month(inYear+1), 1)
	last := dayNumber(int(year), time.Month(inYear+2), 1) - 1 // a 13th month is the next January
	return min(first+int64(c.AnchorDay)-1, last)
}

// firstWeek returns the day of the first WeekStart on or after 1970-01-01, which was a Thursday.
func (c *Cycle) firstWeek() int64 { return (int64(c.WeekStart) - 4 + 7) % 7 }

// clockPeriod returns the newest beginning at or before an instant, and the next one after it.
func (c *Cycle) clockPeriod(at int64) (start, end int64) {
	step := int64(c.Every) * 60
	if c.Unit == Hour {
		step *= 60
	}
	span := c.Zone.span(at)
	for {
		reading := at + span.offset
		if start = at - (reading - floorDiv(reading, step)*step); start >= span.from {
			break
		}
		if start = span.from; c.Zone.begins(start, step) {
			break
		}
		at = span.from - 1
		span = c.Zone.span(at)
	}
	return start, c.clockEnd(start, step)
}

// clockEnd returns the first beginning after start.
func (c *Cycle) clockEnd(start, step int64) int64 {
	at := start
	for {
		span := c.Zone.span(at)
		next := (floorDiv(at+span.offset, step)+1)*step - span.offset
		if next < span.until {
			return next
		}
		if c.Zone.begins(span.until, step) {
			return span.until
		}
		at = span.until
	}
}

// dayNumber returns the number of days from 1970-01-01 to a date. Month 13 is January of the next year.
func dayNumber(year int, month time.Month, day int) int64 {
	return floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
}
