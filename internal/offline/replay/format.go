package replay

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// Event is one request as recorded in a log.
type Event struct {
	At   limit.Time // as written: it may be earlier than that of the previous event
	Key  string
	Cost uint64 // units; 1 if the log does not give it
	Line int    // line number in the input, from 1; the N events of a repeated message share one
}

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
