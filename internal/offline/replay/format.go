package replay

import (
	"fmt"
	"strings"
	"time"
)

// Format names a log format. The values are the names that users type.
type Format string

// The formats.
const (
	CSV      Format = "csv"
	Auth     Format = "auth"
	Combined Format = "combined"
)

// ParseFormat parses a user's input. "" is valid: it makes Open detect the format.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case "", CSV, Auth, Combined:
		return f, nil
	}
	return "", fmt.Errorf("format %q is unknown: use csv, auth or combined", name)
}

// parser parses one line into an event and the number of its occurrences; 0 if the line is not an event.
type parser func(line string) (event Event, times int, err error)

// detect returns the format of the beginning of a log, or "": CSV if its first line is a header, else that of the first
// line that a format knows. The last line may be cut off.
func detect(head []byte) Format {
	first, _, _ := strings.Cut(string(head), "\n")
	if _, err := parseHeader(strings.TrimRight(first, lineEnd)); err == nil {
		return CSV
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		line = strings.TrimRight(line, lineEnd)
		if _, ok := splitSyslog(line); ok {
			return Auth
		}
		if _, _, stamp, ok := cutAccess(line); ok {
			if _, err := time.Parse(accessStamp, stamp); err == nil {
				return Combined
			}
		}
	}
	return ""
}
