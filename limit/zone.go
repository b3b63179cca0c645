package limit

import (
	"archive/zip"
	"bytes"
	_ "embed" // the time zone database
	"io/fs"
	"math"
	"sort"
	"time"
)

// Zone is an immutable time zone of the IANA database, made by LoadZone. Two Zones of one name are the same zone, even
// if they were loaded separately: Limit.Equal compares the names.
type Zone struct {
	name     string // identifies the zone in equal and in encoded limits; never ""
	location *time.Location
}

var utc = &Zone{name: "UTC", location: time.UTC}

// LoadZone returns a time zone by its IANA name, such as "America/New_York". Both "" and "UTC" return one shared Zone
// for UTC. The error is a *FieldError of time_zone.
//
// LoadZone reads only the database in the program, never the machine's database or its environment. So all nodes of one
// version know the same zones and agree on when each changes its clocks. Two versions may disagree about a future
// change, but an open period ends at the instant in its State in both.
func LoadZone(name string) (*Zone, error) {
	if name == "" || name == utc.name {
		return utc, nil
	}
	if data, err := fs.ReadFile(zones, name); err == nil && len(name) <= maxZoneName && name != "Factory" {
		if location, err := time.LoadLocationFromTZData(name, data); err == nil {
			return &Zone{name: name, location: location}, nil
		}
	}
	return nil, wrong("time_zone", "%q is not a time zone of the IANA database; one is \"America/New_York\"", name)
}

// zoneinfo is the IANA database, release 2025c: the zoneinfo.zip of the Go distribution (lib/time), with one file per
// zone. To update it, replace it as a whole.
//
//go:embed zoneinfo.zip
var zoneinfo []byte

// zones has the files of the database by the names of the zones.
var zones = func() fs.FS {
	archive, err := zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		panic(err) // the database is part of the program
	}
	return archive
}()

// maxZoneName bounds the name of a zone in an encoded limit, in bytes.
const maxZoneName = 64

// String returns the name by which the Zone was loaded, or "UTC" for the name "".
func (z *Zone) String() string { return z.name }

// Location returns the zone as a *time.Location.
func (z *Zone) Location() *time.Location { return z.location }

func (z *Zone) equal(other *Zone) bool {
	return z == other || z != nil && other != nil && z.name == other.name
}

// span is a stretch of time with one offset from UTC, in seconds. The next span may have the same offset.
type span struct{ from, until, offset int64 }

// span returns the span that contains an instant. After the newest change listed in a zone's data, package time divides
// the zone's rule into years, but only roughly: every year ends after 365 days, and the first begins on January 1 even
// if that newest change came later. This function corrects both.
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

// offset returns how many seconds the zone's clock is ahead of UTC at an instant.
func (z *Zone) offset(at int64) int64 {
	_, offset := time.Unix(at, 0).In(z.location).Zone()
	return int64(offset)
}

// newestChange returns the instant between before and after since which the offset is that of after.
func (z *Zone) newestChange(before, after int64) int64 {
	offset := z.offset(after)
	has := func(passed int) bool { return z.offset(before+int64(passed)) == offset }
	return before + int64(sort.Search(int(after-before), has))
}

// reaches returns the first instant at which the clock shows at least reading, in seconds since 1970-01-01 00:00 local.
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

// begins reports whether at an instant the clock reaches a multiple of step, or is set forward past one.
func (z *Zone) begins(at, step int64) bool {
	reading := at + z.offset(at)
	multiple := floorDiv(reading, step)
	return multiple*step == reading || multiple > floorDiv(at-1+z.offset(at-1), step)
}
