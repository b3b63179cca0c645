package limit

import "time"

// Cycle says which periods a Calendar limit counts in: Every units, by the calendar of a time zone.
//
// A period is half open, and periods tile: the next begins where one ends. They are numbered from a fixed origin, so
// that with Every above 1 it does not matter when a key was first seen:
//
//   - Day: from 1970-01-01, local.
//   - Week: from the first WeekStart on or after 1970-01-01, local.
//   - Month, Year: from the year 0. A period begins on AnchorDay, or on the month's last day if the month has no such
//     day; that of a Year in January.
//   - Minute, Hour: from 1970-01-01 00:00 as the zone's clock shows it. A period begins whenever the clock comes to a
//     multiple of Every units, or is put forward past one. So an hour which the clock shows twice is two periods, and
//     where the clock changes by whole hours every period of one hour lasts an hour.
//
// A Day, and what is made of days, begins at the first instant of that day: at midnight, or if the clock shows no
// midnight that day, because it was put forward, then when it was; if it shows it twice, the first time. No period
// begins before the Unix epoch.
type Cycle struct {
	Unit      Unit
	Every     uint16 // units in one period, at least 1
	AnchorDay uint8  // Month and Year: the day of the month on which a period begins, 1 to 31, clamped to the month's last; else 0
	WeekStart uint8  // Week: ISO, 1 is Monday, 7 Sunday; else 0
	Zone      *Zone  // LoadZone made it
}

// Unit is a unit of the calendar. The numbers stand in logs and snapshots: append, never renumber.
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

// equal knows two zones of one name for the same, however often it was loaded.
func (c *Cycle) equal(other *Cycle) bool {
	same := *other
	same.Zone = c.Zone
	return *c == same && c.Zone.equal(other.Zone)
}

// maxEvery keeps a period within 100 years, and Every within its 16 bits.
var maxEvery = [...]uint16{Minute: 65_535, Hour: 65_535, Day: 36_500, Week: 5_200, Month: 1_200, Year: 100}

// period returns the beginning and the end of the period that now lies in.
func (c *Cycle) period(now Time) (start, end Time) {
	at := int64(now / microseconds)
	var from, to int64
	if c.Unit <= Hour {
		from, to = c.clockPeriod(at)
	} else {
		from, to = c.datePeriod(at)
	}
	return max(0, Time(from)*microseconds), Time(to) * microseconds
}

// Below, instants are whole seconds since the Unix epoch: no zone has ever changed its offset within one.

const (
	microseconds  = Time(1_000_000) // in a second
	daySeconds    = 24 * 3600
	maxZoneOffset = 26 * 3600 // more than any zone has ever been apart from UTC
)

// datePeriod finds the newest period that has begun at an instant. The date of that instant is the right one, except
// where a clock was put back over midnight, or a zone left out a day.
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

// number is that of the period a date would lie in if periods of months began on the first.
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

// begin is the first instant of a period.
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

// anchorIn is the day on which AnchorDay falls in a month, counted from the year 0.
func (c *Cycle) anchorIn(month int64) int64 {
	year, inYear := floorDiv(month, 12), month-12*floorDiv(month, 12)
	first := dayNumber(int(year), time.Month(inYear+1), 1)
	last := dayNumber(int(year), time.Month(inYear+2), 1) - 1 // a 13th month is the next January
	return min(first+int64(c.AnchorDay)-1, last)
}

// firstWeek is the day of the first WeekStart on or after 1970-01-01, which was a Thursday.
func (c *Cycle) firstWeek() int64 { return (int64(c.WeekStart) - 4 + 7) % 7 }

// clockPeriod lies between the newest beginning at or before an instant and the next one after it.
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

// clockEnd is the first beginning after that at start.
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

func dayNumber(year int, month time.Month, day int) int64 {
	return floorDiv(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix(), daySeconds)
}

// floorDiv is a / b rounded down. b must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
