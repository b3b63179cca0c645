package limit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
)

func TestAZoneIsWhatEveryMachineKnowsByThatName(t *testing.T) {
	for name, want := range map[string]string{"": "UTC", "UTC": "UTC", "Europe/London": "Europe/London",
		"America/Argentina/San_Luis": "America/Argentina/San_Luis", "Etc/GMT+5": "Etc/GMT+5"} {
		if z, err := limit.LoadZone(name); err != nil || z.String() != want {
			t.Errorf("%q: %v, %v", name, z, err)
		}
	}
	one, _ := limit.LoadZone("")
	if two, _ := limit.LoadZone("UTC"); one != two {
		t.Error("UTC is not itself")
	}
	for _, name := range []string{"Local", "localtime", "posixrules", "Europe", "Nowhere/Atall", "../etc/passwd",
		"/etc/localtime", "right/Europe/London", "posix/Europe/London", "Europe//London", "Europe/London/",
		"./Europe/London", "tzdata.zi", "Europe/London\x00", strings.Repeat("a", 65)} {
		var wrong *limit.FieldError
		if z, err := limit.LoadZone(name); !errors.As(err, &wrong) || wrong.Field != "time_zone" ||
			wrong.Message == "" {
			t.Errorf("%q: %v, %v", name, z, err)
		}
	}
}

// A decoded limit shares the Cycle of the expected limit. If another limit was expected, it still equals the encoded
// one.
func TestADecodedCalendarSharesTheCycleItIsExpectedToHave(t *testing.T) {
	london, newYork := mustLoad("Europe/London"), mustLoad("America/New_York")
	l := calendar(limit.Cycle{Unit: limit.Week, Every: 2, WeekStart: 7, Zone: london}, nil)
	b := limit.AppendLimit(nil, l)
	if back, rest, err := limit.DecodeLimit(b, l); err != nil || back != l || len(rest) != 0 {
		t.Errorf("%+v, %x, %v", back, rest, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { limit.DecodeLimit(b, l) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	like := l
	like.Cycle = &limit.Cycle{Unit: limit.Day, Every: 1, Zone: london}
	if back, _, err := limit.DecodeLimit(b, like); err != nil || *back.Cycle != *l.Cycle || *like.Cycle == *l.Cycle {
		t.Errorf("with a zone that is known: %+v, %v", back.Cycle, err)
	}
	like.Cycle = new(*l.Cycle)
	like.Cycle.Zone = newYork
	if back, _, err := limit.DecodeLimit(b, like); err != nil || !back.Equal(&l) || like.Cycle.Zone != newYork {
		t.Errorf("with another zone: %+v, %v", back.Cycle, err)
	}
	for cut := range b {
		if back, _, err := limit.DecodeLimit(b[:cut], l); err == nil {
			t.Errorf("%d of %d bytes were read as %+v", cut, len(b), back)
		}
	}
	b[len(b)-1] = 'x'
	if back, _, err := limit.DecodeLimit(b, l); err == nil || !strings.Contains(err.Error(), "Europe/Londox") {
		t.Errorf("%+v, %v", back, err)
	}
	if back, _, err := limit.DecodeLimit([]byte("\x0a\x01\x00\x00\x00\x00\x03\x01\x00\x00\x00"), l); err == nil {
		t.Errorf("a zone without a name was read: %+v", back)
	}
}

// Zones loaded twice are equal. Otherwise a policy would seem changed to every key that was decoded before it.
func TestLimitsAreEqualWhenTheirNumbersAre(t *testing.T) {
	london := mustLoad("Europe/London")
	monthly := limit.Cycle{Unit: limit.Month, Every: 2, AnchorDay: 3, Zone: london}
	l := calendar(monthly, nil)
	twin := calendar(limit.Cycle{Unit: limit.Month, Every: 2, AnchorDay: 3, Zone: mustLoad("Europe/London")}, nil)
	if l == twin || !l.Equal(&twin) || !twin.Equal(&l) {
		t.Errorf("%+v and %+v", l.Cycle, twin.Cycle)
	}
	s, _ := limit.Take(l, limit.State{}, 1, noon)
	if converted := limit.Convert(l, s, twin, noon+1); converted.T != s.T || converted.A != 1 || converted.B != s.B {
		t.Errorf("%+v became %+v", s, converted)
	}
	for field, other := range map[string]limit.Limit{
		"unit":       calendar(monthly, func(l *limit.Limit) { l.Cycle.Unit = limit.Year }),
		"every":      calendar(monthly, func(l *limit.Limit) { l.Cycle.Every = 3 }),
		"anchor_day": calendar(monthly, func(l *limit.Limit) { l.Cycle.AnchorDay = 4 }),
		"week_start": calendar(monthly, func(l *limit.Limit) { l.Cycle.WeekStart = 1 }),
		"time_zone":  calendar(monthly, func(l *limit.Limit) { l.Cycle.Zone = mustLoad("Europe/Berlin") }),
		"no zone":    calendar(monthly, func(l *limit.Limit) { l.Cycle.Zone = nil }),
		"quota":      calendar(monthly, func(l *limit.Limit) { l.Quota = 2 }),
		"no cycle":   calendar(monthly, func(l *limit.Limit) { l.Cycle = nil }),
		"algorithm":  {Algorithm: limit.Lifetime, Quota: 1},
	} {
		if l.Equal(&other) || other.Equal(&l) || !other.Equal(&other) {
			t.Errorf("another %s makes no difference", field)
		}
	}
}

// Time zones come from the program, even if the machine's database differs or the environment names another one.
func TestZonesAreThoseOfTheProgram(t *testing.T) {
	if os.Getenv("ZONEINFO") == "" { // package time reads it once: it must be set from the start
		again := exec.Command(os.Args[0], "-test.run=^TestZonesAreThoseOfTheProgram$", "-test.v")
		zones := machineWithOtherZones(t)
		again.Env = append(os.Environ(), "ZONEINFO="+zones, "TZ="+filepath.Join(zones, "local"))
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	for _, name := range []string{"America/New_York", "America/New_Land"} {
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatalf("the machine has no zone of that name, so this test shows nothing: %v", err)
		}
		if _, offset := time.Unix(0, 0).In(location).Zone(); offset != 0 {
			t.Fatalf("the machine's %s is %d s off, so this test shows nothing", name, offset)
		}
	}
	if _, offset := time.Unix(0, 0).In(mustLoad("America/New_York").Location()).Zone(); offset != -5*3600 {
		t.Errorf("New York is %d s off", offset)
	}
	if _, offset := time.Unix(0, 0).Zone(); offset != 3600 {
		t.Fatalf("the machine's own zone is %d s off, so this test shows nothing", offset)
	}
	for _, name := range []string{"", "UTC"} {
		if _, offset := time.Unix(0, 0).In(mustLoad(name).Location()).Zone(); offset != 0 {
			t.Errorf("UTC by the name of %q is %d s off", name, offset)
		}
	}
	if z, err := limit.LoadZone("America/New_Land"); err == nil {
		t.Errorf("a zone of the machine was loaded: %v", z)
	}
}

// machineWithOtherZones makes a database in which New York is UTC, and which has one more zone. Its file "local" is the
// zone of a machine one hour east of UTC.
func machineWithOtherZones(t *testing.T) string {
	dir := t.TempDir()
	utc := make([]byte, 44, 54) // RFC 9636: no transitions, one type of 0 s, and its name of 4 bytes
	copy(utc, "TZif")
	utc[39], utc[43] = 1, 4
	utc = append(utc, "\x00\x00\x00\x00\x00\x00UTC\x00"...)
	if err := os.Mkdir(filepath.Join(dir, "America"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"New_York", "New_Land"} {
		if err := os.WriteFile(filepath.Join(dir, "America", name), utc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	utc[46], utc[47] = 0x0e, 0x10 // the type's offset: 3,600 s
	if err := os.WriteFile(filepath.Join(dir, "local"), utc, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
