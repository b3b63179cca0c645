package replay

import (
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

func TestCSVTimes(t *testing.T) {
	for text, want := range map[string]limit.Time{
		"0":                                0,
		"1700000000":                       1_700_000_000_000_000,
		"1700000000.25":                    1_700_000_000_250_000,
		"1700000000.1234567":               1_700_000_000_123_456,
		"1700000000123":                    1_700_000_000_123_000,
		"1700000000123.4567":               1_700_000_000_123_456,
		"99999999999":                      99_999_999_999_000_000,
		"100000000000":                     100_000_000_000_000,
		"2023-11-14T22:13:20Z":             1_700_000_000_000_000,
		"2023-11-14T22:13:20.000001Z":      1_700_000_000_000_001,
		"2023-11-14T22:13:20.0000019Z":     1_700_000_000_000_001,
		"2023-11-15T00:13:20.5+02:00":      1_700_000_000_500_000,
		"1970-01-01T00:00:00.000000-00:00": 0,
	} {
		if got, err := parseTime(text); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", ".5", "-1", "1e9", "100000000000000", "99999999999999999999", "yesterday",
		"2023-11-14", "2023-11-14 22:13:20", "1969-12-31T23:59:59Z", "1.5.5", "1_000"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

func TestCSV(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"two columns", "time,key\n1,a\n2,b\n", "1 a 1; 2 b 1; "},
		{"any order, carriage returns, no last line end", "cost,key,time\r\n7,a,1\r\n,b,2", "1 a 7; 2 b 1; "},
		{"byte order mark, capitals, spaces", "\ufeffTime, Key\n1,a\n", "1 a 1; "},
		{"quotes", "time,key\n1,\"a,\"\"b\"\"\"\n", `1 a,"b" 1; `},
		{"empty lines", "time,key\n\n1,a\n\n", "1 a 1; "},
		{"times stay as they are", "time,key\n2,a\n1,b\n", "2 a 1; 1 b 1; "},
		{"no events", "time,key\n", ""},

		{"bad time", "time,key\n1,a\nx,b\n", `1 a 1; log:3: time: ` +
			`must be RFC 3339 or a Unix time in seconds or milliseconds, not "x"`},
		{"no key", "time,key\n1,\n", "log:2: key: is missing"},
		{"long key", "time,key\n1," + strings.Repeat("k", 513) + "\n",
			"log:2: key: has 513 bytes: at most 512 are allowed"},
		{"control character", "time,key\n1,a\tb\n", "log:2: key: has the control character U+0009 at byte 1"},
		{"not UTF-8", "time,key\n1,\xff\n", "log:2: key: is not valid UTF-8 at byte 0"},
		{"zero cost", "time,key,cost\n1,a,0\n", `log:2: cost: must be a whole number from 1 to 1099511627776, not "0"`},
		{"huge cost", "time,key,cost\n1,a,1099511627777\n",
			`log:2: cost: must be a whole number from 1 to 1099511627776, not "1099511627777"`},
		{"columns", "time,key\n1,a,5\n", "log:2: has 3 columns: the header has 2"},
		{"open quote", "time,key\n1,\"a\n", `log:2: the quotes are wrong: a quoted field begins and ends with one,` +
			` and "" stands for one inside`},
		{"long line", "time,key\n1," + strings.Repeat("a", lineBytesMax) + "\n",
			"log:2: the line is longer than 64 KiB"},
		{"empty", "", "log: there is nothing in it"},
		{"another file", strings.Repeat("x", 500),
			`log:1: the header has the column "` + strings.Repeat("x", 60) + `": known are time, key and cost`},
		{"unknown column", "time,key,costs\n", `log:1: the header has the column "costs": ` +
			`known are time, key and cost`},
		{"column twice", "time,key,time\n", `log:1: the header has the column "time" twice`},
		{"no key column", "time\n", "log:1: the header must have the columns time and key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := readAll(tt.text, Options{Format: CSV}); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzCSVLine(f *testing.F) {
	f.Add("time,key,cost", "1700000000.5,\"a\",3")
	f.Add("key,time", "a,2023-11-14T22:13:20Z")
	f.Fuzz(func(t *testing.T, header, line string) {
		columns, err := parseHeader(header)
		if err != nil {
			return
		}
		event, times, err := columns.parse(line)
		checkEvent(t, event, times, err)
	})
}
