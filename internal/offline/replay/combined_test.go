package replay

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

func TestCombined(t *testing.T) {
	const at = limit.Time(1_700_000_000_000_000)
	for line, want := range map[string]Event{
		`192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612 "-" "curl/8"`: {At: at,
			Key: "192.0.2.7"},
		`192.0.2.7 - frank [15/Nov/2023:00:13:20 +0200] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "192.0.2.7"},
		`2001:DB8::7 - - [14/Nov/2023:14:13:20 -0800] "GET / HTTP/1.1" 200 612 "-" "[x] \"y\""`: {At: at,
			Key: "2001:db8::7"},
		`host.example.com - a b [1] c [14/Nov/2023:22:13:20 +0000] "\x16\x03\x01" 400 157 "-" "-"`: {At: at,
			Key: "host.example.com"},
		`192.0.2.7 - a[01/Jan/2001:00:00:00 +0000] [14/Nov/2023:22:13:20 +0000] "-" 408 0 "-" "-" 0.5`: {At: at,
			Key: "192.0.2.7"},

		`shop.example.com:443 192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "192.0.2.7"},
		`shop.example.com:443 a.example.com - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "a.example.com"},
		`shop.example.com 2001:db8::7 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "2001:db8::7"},
		`198.51.100.1:80 192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "192.0.2.7"},
		`192.0.2.7:51234 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "192.0.2.7"},
		`[2001:db8::7]:51234 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 612`: {At: at,
			Key: "2001:db8::7"},
	} {
		want.Cost = 1
		if got, times, err := parseCombined(line); err != nil || times != 1 || got != want {
			t.Errorf("%s\n\tis %d times %+v (%v), want %+v", line, times, got, err, want)
		}
	}
	for _, line := range []string{
		"garbage",
		"[14/Nov/2023:22:13:20 +0000] \"",
		`192.0.2.7 - - [14/Nov/2023:22:13:20 +0000]`,
		`192.0.2.7 - - [14/Foo/2023:22:13:20 +0000] "GET /"`,
		`192.0.2.7 - - [14/Nov/2023:22:13:20] "GET /"`,
		`192.0.2.7 - - [14/Nov/1923:22:13:20 +0000] "GET /"`,
		`192.0.2.7 ] "`,
		`- - - [14/Nov/2023:22:13:20 +0000] "GET /"`,
		`unix: - - [14/Nov/2023:22:13:20 +0000] "GET /"`,
		`UNKNOWN - - [14/Nov/2023:22:13:20 +0000] "GET /"`,
		`shop.example.com:443 - - - [14/Nov/2023:22:13:20 +0000] "GET /"`,
	} {
		if got, times, err := parseCombined(line); err == nil {
			t.Errorf("%s\n\tis %d times %+v", line, times, got)
		}
	}
}

func FuzzCombinedLine(f *testing.F) {
	f.Add(accessLine)
	f.Add(`192.0.2.7 ] "`)
	f.Fuzz(func(t *testing.T, line string) {
		event, times, err := parseCombined(line)
		checkEvent(t, event, times, err)
	})
}
