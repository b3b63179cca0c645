package limit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
)

// The tests below compute the calendars a second time, independently: they walk a zone's clock in steps of a quarter of
// an hour or of a minute, and list the dates on which periods begin one by one. There is no division.

// oddZones are zones with difficult rules.
var oddZones = []string{
	"UTC",
	"America/New_York",
	"Europe/London",
	"Australia/Lord_Howe", // the clocks change by half an hour
	"Asia/Kathmandu",      // 5:45 ahead
	"America/Sao_Paulo",
	"Asia/Beirut",     // set forward at midnight: that day has none
	"America/Havana",  // set back at 1:00: midnight is shown twice
	"Pacific/Chatham", // 12:45 ahead, and changes at 2:45
	"Pacific/Apia",
	"Africa/Casablanca", // four changes in some years
	"Asia/Tehran",       // set forward at midnight until 2022
	"America/Santiago",
}

// stretch is a part of a zone's history, walked in steps. The zone changes nothing within a step.
type stretch struct {
	zone        string
	first, last int // years
	step        limit.Span
}

func stretches() []stretch {
	all := []stretch{
		{"Pacific/Apia", 2009, 2012, hour / 4},        // 2011-12-30 was skipped
		{"Pacific/Kwajalein", 1993, 1994, hour / 4},   // 1993-08-21 was skipped
		{"America/St_Johns", 2009, 2011, minute},      // set back at 0:01 to 23:01 of the day before
		{"America/Sao_Paulo", 2016, 2019, hour / 4},   // set forward at midnight
		{"America/New_York", 2099, 2105, hour / 4},    // beyond the transitions listed in the data
		{"Australia/Lord_Howe", 2087, 2089, hour / 4}, // December 31 of a leap year
		{"America/Argentina/San_Luis", 2007, 2010, hour / 4},
		// The newest change came in the middle of a year. The zone's rule since then covers that year from January on.
		{"America/Ciudad_Juarez", 2021, 2024, hour / 4},
		{"America/Indiana/Winamac", 2005, 2008, hour / 4},
		{"Antarctica/Troll", 2020, 2023, hour / 4}, // changes by two hours
	}
	for _, zone := range oddZones {
		all = append(all, stretch{zone, 2020, 2030, hour / 4})
	}
	return all
}

// tick is an instant and the reading of the zone's clock at that instant.
type tick struct {
	at      limit.Time
	date    int // 20240229
	reading int // minutes since 1970-01-01 00:00 on the zone's clock
	jumped  bool
}

func load(t *testing.T, name string) *limit.Zone {
	t.Helper()
	z, err := limit.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// walkClock lists the ticks of a stretch.
func walkClock(t *testing.T, s stretch) []tick {
	t.Helper()
	location := load(t, s.zone).Location()
	from, until := time.Date(s.first, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(s.last+1, 1, 1, 0, 0, 0, 0, time.UTC)
	ticks := make([]tick, 0, until.Sub(from).Microseconds()/int64(s.step)+1)
	offset, began := 0, false
	for at := from; at.Before(until); at = at.Add(time.Duration(s.step) * time.Microsecond) {
		_, now := at.In(location).Zone()
		jumped := began && now != offset
		if jumped {
			if _, before := at.Add(-time.Second).In(location).Zone(); before != offset {
				t.Fatalf("%s changes its clock between two ticks before %v", s.zone, at)
			}
		}
		offset, began = now, true
		shown := at.Add(time.Duration(now) * time.Second) // a UTC clock that is ahead by the offset
		year, month, day := shown.Date()
		ticks = append(ticks, tick{limit.Time(at.UnixMicro()), year*10_000 + int(month)*100 + day,
			int(shown.Unix() / 60), jumped})
	}
	return ticks
}

// firstDays lists the dates on which the periods of a Cycle begin, up to a year.
func firstDays(c limit.Cycle, until int) []int {
	var dates []int
	day, next := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), 1
	for c.Unit == limit.Week && int(day.Weekday()) != int(c.WeekStart)%7 {
		day = day.AddDate(0, 0, 1)
	}
	switch c.Unit {
	case limit.Week:
		next = 7
	case limit.Month, limit.Year:
		return firstDaysOfMonths(c, until)
	}
	for ; day.Year() <= until; day = day.AddDate(0, 0, next*int(c.Every)) {
		dates = append(dates, day.Year()*10_000+int(day.Month())*100+day.Day())
	}
	return dates
}

func firstDaysOfMonths(c limit.Cycle, until int) []int {
	var dates []int
	count := 0 // units until the next period begins
	for year := 0; year <= until; year++ {
		for month := 1; month <= 12; month++ {
			if c.Unit == limit.Year && month > 1 {
				continue
			}
			if count == 0 {
				count = int(c.Every)
				day := int(c.AnchorDay)
				for time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
					day-- // there is no such day
				}
				dates = append(dates, year*10_000+month*100+day)
			}
			count--
		}
	}
	return dates
}

// beginningsOfDates returns the instants at which the clock first shows one of the dates, or a later one.
func beginningsOfDates(ticks []tick, dates []int) []limit.Time {
	var begin []limit.Time
	next, _ := slices.BinarySearch(dates, ticks[0].date+1)
	for _, k := range ticks {
		began := false
		for next < len(dates) && k.date >= dates[next] {
			began = true
			next++
		}
		if began {
			begin = append(begin, k.at)
		}
	}
	return begin
}

// beginningsOfReadings returns the instants at which the clock reaches a multiple of every steps, or jumps past one.
func beginningsOfReadings(ticks []tick, step limit.Span, every int) []limit.Time {
	var begin []limit.Time
	minutes := int(step / minute)
	for i, k := range ticks[1:] {
		expected := ticks[i].reading + minutes
		passed := k.reading%every == 0
		for reading := expected; reading < k.reading; reading++ {
			passed = passed || reading%every == 0
		}
		if passed {
			begin = append(begin, k.at)
		}
	}
	return begin
}

// mustTile fails unless the periods of a Cycle are exactly those between the given instants.
func mustTile(t *testing.T, c limit.Cycle, begin []limit.Time) {
	t.Helper()
	l := limit.Limit{Algorithm: limit.Calendar, Quota: 5, Cycle: &c}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(begin) < 2 {
		t.Fatalf("%s every %d: only %d periods begin", c.Zone, c.Every, len(begin))
	}
	rng := rand.New(rand.NewPCG(uint64(c.Unit), uint64(c.Every)))
	var s limit.State
	for i, from := range begin[:len(begin)-1] {
		until := begin[i+1]
		if len(begin) > 1000 && i > 0 && until-from == from-begin[i-1] && rng.IntN(8) != 0 {
			continue // like the one before
		}
		s = mustBeOnePeriod(t, l, s, from, until, from+limit.Time(rng.Int64N(int64(until-from))))
	}
}

// mustBeOnePeriod uses the whole quota within [from, until), starting from the State that the period before left.
func mustBeOnePeriod(t *testing.T, l limit.Limit, before limit.State, from, until, within limit.Time) limit.State {
	t.Helper()
	for _, at := range []limit.Time{from, within, until - 1} {
		if s, v := limit.Take(l, limit.State{}, 1, at); v.WindowStart != from || v.ResetAt != until || s.T != until {
			t.Fatalf("%s %+v: the period at %s is %s to %s, want %s to %s", l.Cycle.Zone, l.Cycle, tellTime(at),
				tellTime(v.WindowStart), tellTime(v.ResetAt), tellTime(from), tellTime(until))
		}
		if v := limit.Status(l, limit.State{}, at); v.WindowStart != from || v.ResetAt != at {
			t.Fatalf("%s %+v: at rest at %s: %+v", l.Cycle.Zone, l.Cycle, tellTime(at), v)
		}
	}
	s, v := limit.Take(l, before, 2, from)
	if !v.Allowed || v.Used != 2 {
		t.Fatalf("%s %+v: the period before is still there at %s: %+v", l.Cycle.Zone, l.Cycle, tellTime(from), v)
	}
	if from > 0 {
		s = limit.Refund(l, s, 2, from-1, from) // units of the period before
	}
	s, _ = limit.Take(l, s, 3, within)
	last, v := limit.Take(l, s, 1, until-1)
	if v.Allowed || v.Used != 5 || v.RetryAfter != 1 {
		t.Fatalf("%s %+v: used up, one microsecond before its end at %s: %+v",
			l.Cycle.Zone, l.Cycle, tellTime(until), v)
	}
	if v := limit.Status(l, limit.Refund(l, last, 2, from, until-1), until-1); v.Used != 3 {
		t.Fatalf("%s %+v: 2 of 5 given back: %+v", l.Cycle.Zone, l.Cycle, v)
	}
	return last
}

func tellTime(at limit.Time) string { return time.UnixMicro(int64(at)).UTC().Format(time.RFC3339Nano) }

// datedCycles are cycles of days and longer units.
func datedCycles(zone *limit.Zone) []limit.Cycle {
	var all []limit.Cycle
	for _, every := range []uint16{1, 2, 3, 10, 100} {
		all = append(all, limit.Cycle{Unit: limit.Day, Every: every, Zone: zone})
	}
	for start := uint8(1); start <= 7; start++ {
		for _, every := range []uint16{1, 2, 5} {
			all = append(all, limit.Cycle{Unit: limit.Week, Every: every, WeekStart: start, Zone: zone})
		}
	}
	for _, anchor := range []uint8{1, 15, 29, 30, 31} {
		for _, every := range []uint16{1, 2, 3, 6, 7, 12} {
			all = append(all, limit.Cycle{Unit: limit.Month, Every: every, AnchorDay: anchor, Zone: zone})
		}
		all = append(all, limit.Cycle{Unit: limit.Year, Every: 1, AnchorDay: anchor, Zone: zone})
	}
	return all
}

func TestPeriodsAreThoseOfTheZonesClock(t *testing.T) {
	for _, s := range stretches() {
		t.Run(fmt.Sprintf("%s %d", s.zone, s.first), func(t *testing.T) {
			t.Parallel()
			ticks, zone := walkClock(t, s), load(t, s.zone)
			for _, c := range datedCycles(zone) {
				if begin := beginningsOfDates(ticks, firstDays(c, s.last)); len(begin) > 1 || s.last-s.first > 5 {
					mustTile(t, c, begin)
				}
			}
			for _, every := range []uint16{1, 2, 5, 6, 12, 24, 25, 100, 5000} {
				mustTile(t, limit.Cycle{Unit: limit.Hour, Every: every, Zone: zone},
					beginningsOfReadings(ticks, s.step, 60*int(every)))
			}
		})
	}
}

// With Every above 1, a period begins in each year that is a multiple of Every.
func TestPeriodsOfSeveralYears(t *testing.T) {
	ticks := walkClock(t, stretch{"Europe/London", 1990, 2030, hour / 4})
	for _, every := range []uint16{2, 3, 4, 10} {
		c := limit.Cycle{Unit: limit.Year, Every: every, AnchorDay: 31, Zone: load(t, "Europe/London")}
		mustTile(t, c, beginningsOfDates(ticks, firstDays(c, 2030)))
	}
}

// Minutes are walked only around each change of the clocks.
func TestPeriodsOfMinutesAreThoseOfTheZonesClock(t *testing.T) {
	for _, s := range stretches() {
		t.Run(fmt.Sprintf("%s %d", s.zone, s.first), func(t *testing.T) {
			t.Parallel()
			zone, around := load(t, s.zone), stretch{s.zone, s.first, s.first + 1, minute}
			ticks := walkClock(t, around)
			near := aroundChanges(ticks)
			for _, every := range []uint16{1, 7, 15, 20, 60, 90, 1440} {
				c := limit.Cycle{Unit: limit.Minute, Every: every, Zone: zone}
				for _, part := range near {
					mustTile(t, c, beginningsOfReadings(part, minute, int(every)))
				}
			}
		})
	}
}

// aroundChanges cuts out three days around each change of the clocks, or in the middle if they never change.
func aroundChanges(ticks []tick) (parts [][]tick) {
	for i, k := range ticks {
		if k.jumped {
			parts = append(parts, ticks[max(0, i-2200):min(len(ticks), i+2200)])
		}
	}
	if parts == nil {
		parts = append(parts, ticks[len(ticks)/2-2200:len(ticks)/2+2200])
	}
	return parts
}

// The same with names and dates, as a person would check it in a calendar.
func TestPeriodsOfTheCalendar(t *testing.T) {
	for _, tt := range []struct {
		zone        string
		cycle       limit.Cycle
		at          string
		from, until string
	}{
		// The 15th at midnight in New York, through the change of the clocks.
		{"America/New_York", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15}, "2026-03-01T00:00:00Z",
			"2026-02-15T05:00:00Z", "2026-03-15T04:00:00Z"},
		{"America/New_York", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15}, "2026-03-15T04:00:00Z",
			"2026-03-15T04:00:00Z", "2026-04-15T04:00:00Z"},
		{"America/New_York", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15}, "2026-11-15T04:59:59Z",
			"2026-10-15T04:00:00Z", "2026-11-15T05:00:00Z"},
		// The last day of the month, through a leap February.
		{"", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 31}, "2024-02-28T23:59:59Z",
			"2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 31}, "2024-02-29T00:00:00Z",
			"2024-02-29T00:00:00Z", "2024-03-31T00:00:00Z"},
		{"", limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 30}, "2025-02-28T00:00:00Z",
			"2025-02-28T00:00:00Z", "2025-03-30T00:00:00Z"},
		// The year ends in Auckland first, and a quarter is three months since the year 0.
		{"Pacific/Auckland", limit.Cycle{Unit: limit.Year, Every: 1, AnchorDay: 1}, "2025-12-31T11:00:00Z",
			"2025-12-31T11:00:00Z", "2026-12-31T11:00:00Z"},
		{"", limit.Cycle{Unit: limit.Month, Every: 3, AnchorDay: 1}, "2025-05-05T00:00:00Z",
			"2025-04-01T00:00:00Z", "2025-07-01T00:00:00Z"},
		// A day of 23 hours, one of 25, one without midnight, one with two midnights, and one that was skipped.
		{"Europe/London", limit.Cycle{Unit: limit.Day, Every: 1}, "2025-03-30T12:00:00Z",
			"2025-03-30T00:00:00Z", "2025-03-30T23:00:00Z"},
		{"Europe/London", limit.Cycle{Unit: limit.Day, Every: 1}, "2025-10-26T12:00:00Z",
			"2025-10-25T23:00:00Z", "2025-10-27T00:00:00Z"},
		{"America/Sao_Paulo", limit.Cycle{Unit: limit.Day, Every: 1}, "2018-11-04T12:00:00Z",
			"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"America/Havana", limit.Cycle{Unit: limit.Day, Every: 1}, "2024-11-03T05:30:00Z",
			"2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z"},
		{"America/St_Johns", limit.Cycle{Unit: limit.Day, Every: 1}, "2010-11-07T03:00:00Z", // it is 23:30 again
			"2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		{"Pacific/Apia", limit.Cycle{Unit: limit.Day, Every: 1}, "2011-12-30T10:00:00Z",
			"2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		// Sunday to Saturday, and two weeks since the first Monday of 1970.
		{"", limit.Cycle{Unit: limit.Week, Every: 1, WeekStart: 7}, "2025-06-14T23:00:00Z",
			"2025-06-08T00:00:00Z", "2025-06-15T00:00:00Z"},
		{"", limit.Cycle{Unit: limit.Week, Every: 2, WeekStart: 1}, "1970-01-20T00:00:00Z",
			"1970-01-19T00:00:00Z", "1970-02-02T00:00:00Z"},
		// The hour that is shown twice is two periods; a period of six hours lasts seven that night.
		{"America/New_York", limit.Cycle{Unit: limit.Hour, Every: 1}, "2025-11-02T06:30:00Z",
			"2025-11-02T06:00:00Z", "2025-11-02T07:00:00Z"},
		{"America/New_York", limit.Cycle{Unit: limit.Hour, Every: 6}, "2025-11-02T06:30:00Z",
			"2025-11-02T04:00:00Z", "2025-11-02T11:00:00Z"},
		// The very first period begins with the epoch. The next begins at midnight in New York.
		{"America/New_York", limit.Cycle{Unit: limit.Day, Every: 1}, "1970-01-01T00:00:00Z",
			"1970-01-01T00:00:00Z", "1970-01-01T05:00:00Z"},
	} {
		tt.cycle.Zone = load(t, tt.zone)
		at, from, until := parse(t, tt.at), parse(t, tt.from), parse(t, tt.until)
		mustBeOnePeriod(t, limit.Limit{Algorithm: limit.Calendar, Quota: 5, Cycle: &tt.cycle}, limit.State{},
			from, until, at)
	}
}

func parse(t *testing.T, text string) limit.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Time(at.UnixMicro())
}
