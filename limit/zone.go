package limit

import (
	"math"
	"strings"
	"time"
	_ "time/tzdata" // so that a zone is found on every machine
)

// Zone is a time zone of the IANA database: LoadZone makes it, and it never changes. Two of one name are the same zone,
// also if they were loaded twice: Limit.Equal compares the names.
type Zone struct {
	name     string
	location *time.Location
}

var utc = &Zone{name: "UTC", location: time.UTC}

// LoadZone finds a time zone by its IANA name, as "America/New_York". "" and "UTC" are UTC, the same Zone always.
// "Local" is refused, since it is another zone on another machine. The error is a *FieldError of time_zone.
//
// A machine's own database goes before the one in the program. Two machines may so disagree about a future change of
// the clocks; a period that is open ends where its State says on both.
func LoadZone(name string) (*Zone, error) {
	if name == "" || name == utc.name {
		return utc, nil
	}
	if isZoneName(name) {
		if location, err := time.LoadLocation(name); err == nil {
			return &Zone{name: name, location: location}, nil
		}
	}
	return nil, wrong("time_zone", "%q is not a time zone of the IANA database; one is \"America/New_York\"", name)
}

// String is the name by which the Zone was loaded; of UTC "UTC".
func (z *Zone) String() string { return z.name }

func (z *Zone) equal(other *Zone) bool {
	return z == other || z != nil && other != nil && z.name == other.name
}

// isZoneName refuses what a machine's own database has besides zones that every other one has too.
func isZoneName(name string) bool {
	if len(name) > maxZoneName || name == "Local" || name == "localtime" || name == "posixrules" {
		return false
	}
	for i, part := range strings.Split(name, "/") {
		if part == "" || i == 0 && (part == "posix" || part == "right") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(zoneLetters, r) })
}

const (
	maxZoneName = 64 // bytes
	zoneLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/"
)

// span is a stretch of time in which a zone's clock is one offset ahead of UTC. The next may have the same offset.
type span struct{ from, until, offset int64 }

// span is the one that an instant lies in. After the newest change that a zone's data lists, package time divides what
// the zone's rule says into years, and does so roughly: every year ends after 365 days, and the first begins on January
// 1 even if that newest change came later.
func (z *Zone) span(at int64) span {
	s := span{from: math.MinInt64 / 2, until: math.MaxInt64 / 2, offset: z.offset(at)}
	from, until := time.Unix(at, 0).In(z.location).ZoneBounds()
	if !from.IsZero() {
		s.from = from.Unix()
		if z.offset(s.from) != s.offset {
			s.from = z.newestChange(s.from, at)
		}
	}
	if !until.IsZero() {
		s.until = until.Unix()
		if s.until <= at {
			s.until += daySeconds
		}
	}
	return s
}

func (z *Zone) offset(at int64) int64 {
	_, offset := time.Unix(at, 0).In(z.location).Zone()
	return int64(offset)
}

// newestChange is the instant between two others since which the offset is that of the later one.
func (z *Zone) newestChange(before, after int64) int64 {
	offset := z.offset(after)
	for after-before > 1 {
		if middle := before + (after-before)/2; z.offset(middle) == offset {
			after = middle
		} else {
			before = middle
		}
	}
	return after
}

// reaches is the first instant at which the clock shows reading, in seconds since 1970-01-01 00:00 local, or more.
func (z *Zone) reaches(reading int64) int64 {
	at := reading - maxZoneOffset
	for {
		s := z.span(at)
		if at = max(at, reading-s.offset); at < s.until {
			return at
		}
		at = s.until
	}
}

// begins reports whether the clock comes to a multiple of step at an instant, or is put forward past one.
func (z *Zone) begins(at, step int64) bool {
	reading := at + z.offset(at)
	multiple := floorDiv(reading, step)
	return multiple*step == reading || multiple > floorDiv(at-1+z.offset(at-1), step)
}
