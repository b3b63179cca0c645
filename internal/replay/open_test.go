package replay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
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
		{strings.Repeat("x\n", detectLines) + accessLine, ""},
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

// One broken line of a log is counted and passed over; a reader that fails ends the reading.
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
	if fmt.Sprint(lines) != "[1 4]" || events.unreadable != 2 || !strings.HasPrefix(events.firstUnreadable.Error(), "log:2: ") {
		t.Errorf("events in the lines %v, %d unreadable, the first: %v", lines, events.unreadable, events.firstUnreadable)
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

func TestAuthLogNeedsAYear(t *testing.T) {
	if got := readAll(authLine, Options{}); !strings.HasPrefix(got, "log:1: the times of this log have no year") {
		t.Errorf("got %s", got)
	}
	if got := readAll(strings.Replace(authLine, "Dec 10 07:13:56", "2016-12-10T07:13:56Z", 1), Options{}); got != "1481354036 192.0.2.7 1; " {
		t.Errorf("got %s", got)
	}
}
