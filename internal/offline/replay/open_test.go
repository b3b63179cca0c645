package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll reads a log to its end: "second key cost; " for each event, then the error if there is one.
func readAll(text string, options Options) string {
	var got strings.Builder
	events, err := Open("log", strings.NewReader(text), options)
	for err == nil {
		var e Event
		if e, err = events.Next(); err == nil {
			fmt.Fprintf(&got, "%d %s %d; ", e.At/1_000_000, e.Key, e.Cost)
		}
	}
	if !errors.Is(err, io.EOF) {
		got.WriteString(err.Error())
	}
	return got.String()
}

const (
	authLine   = "Dec 10 07:13:56 host sshd[1]: Failed password for root from 192.0.2.7 port 42393 ssh2\n"
	accessLine = `192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612 "-" "curl/8"` + "\n"
)

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		head string
		want Format
	}{
		{"time,key\n", CSV},
		{"key,cost,time\r\n1,2,3\n", CSV},
		{authLine, Auth},
		{"Dec 10 06:55:46 host CRON[7]: (root) CMD (true)\n" + authLine, Auth},
		{"cut short\n" + authLine, Auth},
		{"2016-12-10T07:13:56.5+00:00 host sshd[1]: Server listening\n", Auth},
		{accessLine, Combined},
		{"\n\n" + accessLine, Combined},
		{"", ""},
		{"a,b\n1,2\n", ""},
		{strings.Repeat("at java.base/java.lang.Thread.run\n", 100) + accessLine, Combined},
		{"shop.example.com:443 " + accessLine, Combined},
	} {
		if got := detect([]byte(tt.head)); got != tt.want {
			t.Errorf("%q is taken for %q, want %q", tt.head, got, tt.want)
		}
	}
	if got := readAll("hello\n", Options{}); !strings.Contains(got, "log: the first lines are in none of the formats") {
		t.Errorf("got %s", got)
	}
	if got := readAll(accessLine, Options{Format: CSV}); !strings.HasPrefix(got, "log:1: ") {
		t.Errorf("a format that was named is not used: %s", got)
	}
}

func TestParseFormat(t *testing.T) {
	for _, name := range []string{"", "csv", "auth", "combined"} {
		if f, err := ParseFormat(name); err != nil || string(f) != name {
			t.Errorf("%q: got %q, %v", name, f, err)
		}
	}
	if _, err := ParseFormat("CSV"); err == nil {
		t.Error("CSV in capitals was accepted")
	}
}

// One broken line of a log is counted and skipped; a failing reader ends the reading.
func TestBrokenLines(t *testing.T) {
	log := accessLine + "garbage\n" + strings.Repeat("x", 3*lineBytesMax) + "\n" + accessLine
	events, err := Open("log", strings.NewReader(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, e.Line)
	}
	if fmt.Sprint(lines) != "[1 4]" || events.Reading().Unreadable != 2 ||
		!strings.HasPrefix(events.firstUnreadable.Error(), "log:2: ") {
		t.Errorf("events in the lines %v, %d unreadable, the first: %v",
			lines, events.Reading().Unreadable, events.firstUnreadable)
	}

	failing := io.MultiReader(strings.NewReader(accessLine), iotest.ErrReader(errors.New("disk on fire")))
	events, err = Open("log", failing, Options{Format: Combined})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = events.Next()
	}
	if !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("the reader's error became %v", err)
	}
}

// Inputs that are not plain text get their own errors: rotated logs are compressed, and some editors write UTF-16.
func TestWhatIsNoTextIsNamed(t *testing.T) {
	for _, tt := range []struct{ log, want string }{
		{"", "log: there is nothing in it"},
		{"\x1f\x8b\x08\x00", "log: is packed with gzip: unpack it first, as in gunzip -c FILE |"},
		{"\xff\xfeD\x00e\x00", "log: is written in UTF-16: make it UTF-8 first"},
		{"\xfe\xff\x00D\x00e", "log: is written in UTF-16: make it UTF-8 first"},
	} {
		for _, format := range []Format{"", Auth, Combined, CSV} {
			if got := readAll(tt.log, Options{Format: format}); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q as %q: %s", tt.log, format, got)
			}
		}
	}
	for _, log := range []string{authLine, accessLine} { // a byte order mark must not cost an event
		for _, format := range []Format{"", detect([]byte(log))} {
			with, without := readAll("\ufeff"+log+log, Options{Format: format, Year: 2016}),
				readAll(log+log, Options{Year: 2016})
			if with != without || !strings.Contains(with, "192.0.2.7 1; ") {
				t.Errorf("with a byte order mark: %s", with)
			}
		}
	}
}

func TestAuthLogNeedsAYear(t *testing.T) {
	if got := readAll(authLine, Options{}); !strings.HasPrefix(got, "log:1: the times of this log have no year") {
		t.Errorf("got %s", got)
	}
	if got := readAll(strings.Replace(authLine, "Dec 10 07:13:56", "2016-12-10T07:13:56Z", 1),
		Options{}); got != "1481354036 192.0.2.7 1; " {
		t.Errorf("got %s", got)
	}
}

// A log without events is an error, because it was probably given as the wrong format.
func TestALogWithoutEventsIsAnError(t *testing.T) {
	const cron = "Dec 10 07:13:56 host CRON[7]: (root) CMD (true)\n"
	for _, tt := range []struct{ log, want string }{
		{cron + cron, "log: no event (lines: 2), read as auth: no failed password of sshd"},
		{"time,key\n", "log: no event (lines: 1), read as csv: there is nothing behind the header"},
		{strings.Replace(accessLine, "192.0.2.7", "-", 1), `log: no event (lines: 1), read as combined; ` +
			`1 could not be read, the first: log:1: the client "-" is no address`},
	} {
		events, err := Open("log", strings.NewReader(tt.log), Options{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(events, mustParse(t, threePolicies), Plan{}); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
		events, _ = Open("log", strings.NewReader(tt.log), Options{})
		if _, err := Compare(events, mustParse(t, threePolicies), mustParse(t, threePolicies), Plan{}); err == nil {
			t.Errorf("a comparison of %q says nothing", tt.log)
		}
	}
}

// The report says how much was understood, so that a tenth of a log is not taken for the whole.
func TestReadingAddsUp(t *testing.T) {
	log := authLine + "Dec 10 07:13:57 host CRON[7]: (root) CMD (true)\n" +
		strings.Replace(authLine, "192.0.2.7", "UNKNOWN", 1) + strings.Replace(authLine, "Dec 10", "Feb 30", 1) +
		"2999-01-01T00:00:00Z host sshd[8]: Failed password for root from 192.0.2.7 port 1 ssh2\n"
	events, err := Open("log", strings.NewReader(log),
		Options{Year: 2016, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(events, mustParse(t, threePolicies), Plan{})
	if err != nil {
		t.Fatal(err)
	}
	want := Reading{Lines: 5, Events: 2, Skipped: 1, Unreadable: 2, InFuture: 1,
		FirstUnreadable: `log:3: the client "UNKNOWN" is no address`}
	if report.Reading != want {
		t.Errorf("got  %+v\nwant %+v", report.Reading, want)
	}
}
