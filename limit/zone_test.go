package limit_test

import (
	"errors"
	"strings"
	"testing"

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
	for _, name := range []string{"Local", "localtime", "posixrules", "Europe", "Nowhere/Atall", "../etc/passwd", "/etc/localtime",
		"right/Europe/London", "posix/Europe/London", "Europe//London", "Europe/London/", "./Europe/London", "tzdata.zi",
		"Europe/London\x00", strings.Repeat("a", 65)} {
		var wrong *limit.FieldError
		if z, err := limit.LoadZone(name); !errors.As(err, &wrong) || wrong.Field != "time_zone" || wrong.Message == "" {
			t.Errorf("%q: %v, %v", name, z, err)
		}
	}
}

// A limit is read back equal to the one it is expected to be, and with another zone it still is what was written.
func TestADecodedCalendarSharesTheZoneItIsExpectedToHave(t *testing.T) {
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
	like.Cycle.Zone = newYork
	back, _, err := limit.DecodeLimit(b, like)
	if err != nil || back.Cycle.Zone.String() != "Europe/London" {
		t.Errorf("%+v, %v", back, err)
	}
	// A change of nothing but the pointer is none.
	s, _ := limit.Take(l, limit.State{}, 1, noon)
	converted := limit.Convert(l, s, back, noon)
	if converted.T != s.T || converted.A != 1 || converted.B != s.B {
		t.Errorf("%+v became %+v", s, converted)
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
