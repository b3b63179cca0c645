package model

import (
	"math/big"
	"time"

	"github.com/stint-io/stint/limit"
)

// periods counts what was spent in the same calendar period. It finds the beginning of a period by stepping: through
// the zone's clock by a quarter of an hour or a minute, and through the dates day by day.
type periods struct {
	cycle    limit.Cycle
	location *time.Location

	from, until limit.Time // of the period looked at last
	newest      limit.Time // hit
	spent       uint64     // in its period
}

func newPeriods(c limit.Cycle) *periods {
	return &periods{cycle: c, location: c.Zone.Location()}
}

func (p *periods) used(at limit.Time) *big.Rat { return rat(p.units(at)) }

// units is 0 after the newest hit's period, so that a far future needs no calendar.
func (p *periods) units(at limit.Time) uint64 {
	if p.spent == 0 {
		return 0
	}
	if from, until := p.period(p.newest); at < from || at >= until {
		return 0
	}
	return p.spent
}

func (p *periods) count(units uint64, at limit.Time) {
	p.newest, p.spent = at, p.units(at)+units
}

func (p *periods) refund(units uint64, taken, now limit.Time) {
	if from, _ := p.period(now); taken >= from {
		p.spent -= min(units, p.units(now))
	}
}

// openAt is the period of an instant, with the units spent in it.
func (p *periods) openAt(now limit.Time) (from, until limit.Time, units uint64) {
	units = p.units(now)
	from, until = p.period(now)
	return from, until, units
}

// period steps only where the last known period does not contain the instant.
func (p *periods) period(at limit.Time) (from, until limit.Time) {
	if at < p.from || at >= p.until {
		second := int64(at) / 1_000_000
		var begin, end int64
		if p.cycle.Unit == limit.Minute || p.cycle.Unit == limit.Hour {
			begin, end = p.walkClock(second)
		} else {
			begin, end = p.walkDates(second)
		}
		p.from, p.until = limit.Time(max(0, begin)*1_000_000), limit.Time(end*1_000_000)
	}
	return p.from, p.until
}

// shown is the zone's clock at an instant, as a UTC time.
func (p *periods) shown(second int64) time.Time {
	_, ahead := time.Unix(second, 0).In(p.location).Zone()
	return time.Unix(second+int64(ahead), 0).UTC()
}

// walkClock steps back minute by minute to the one that begins a period, and then forward to the next.
func (p *periods) walkClock(second int64) (begin, end int64) {
	const minute = 60
	begin = second - second%minute
	for !p.clockBegins(begin) {
		begin -= minute
	}
	for end = begin + minute; !p.clockBegins(end); end += minute {
	}
	return begin, end
}

// clockBegins reports whether a period of minutes or hours begins at a second: the zone's clock shows a multiple of its
// length then, or has just skipped one.
func (p *periods) clockBegins(second int64) bool {
	every := int64(p.cycle.Every)
	if p.cycle.Unit == limit.Hour {
		every *= 60
	}
	shown, before := p.shown(second).Unix()/60, p.shown(second-60).Unix()/60
	for minute := before + 1; minute < shown; minute++ { // the clock was put forward
		if minute%every == 0 {
			return true
		}
	}
	return shown%every == 0
}

// walkDates steps back day by day to a date on which a period begins, and forward to the next.
func (p *periods) walkDates(second int64) (begin, end int64) {
	oneDay := 24 * time.Hour
	first := p.shown(second).Truncate(oneDay)
	for !p.isFirst(first) {
		first = first.Add(-oneDay)
	}
	next := first
	for end <= second {
		begin = p.reaches(next)
		for next = next.Add(oneDay); !p.isFirst(next); next = next.Add(oneDay) {
		}
		end = p.reaches(next)
	}
	return begin, end
}

// isFirst reports whether a period begins on a date. In a month without the anchor day that is the month's last day.
func (p *periods) isFirst(date time.Time) bool {
	every := p.cycle.Every
	day := date.Unix() / (24 * 3600)
	switch p.cycle.Unit {
	case limit.Day:
		return day%int64(every) == 0
	case limit.Week:
		origin := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
		for origin.Weekday() != time.Weekday(p.cycle.WeekStart%7) {
			origin = origin.Add(24 * time.Hour)
		}
		return (day-origin.Unix()/(24*3600))%(7*int64(every)) == 0
	case limit.Year:
		if date.Month() != time.January || date.Year()%int(every) != 0 {
			return false
		}
	case limit.Month:
		if (date.Year()*12+int(date.Month())-1)%int(every) != 0 {
			return false
		}
	}
	anchor := int(p.cycle.AnchorDay)
	endsMonth := date.Add(24*time.Hour).Day() == 1
	return date.Day() == anchor || date.Day() < anchor && endsMonth
}

// reaches is the instant at which the zone's clock first shows a date, or a later one.
func (p *periods) reaches(date time.Time) int64 {
	const step = 15 * 60
	second := date.Unix() - 15*3600 // no zone is further ahead
	for p.shown(second).Before(date) {
		second += step
	}
	return second
}
