package replay

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// Event is one request as a log remembers it.
type Event struct {
	At   limit.Time // as written: it may lie before the event read last
	Key  string
	Cost uint64 // units; 1 where the log says nothing of it
	Line int    // of the input, from 1; the N events of a repeated message share one
}

// Format names how a log writes its events. The values are what people type.
type Format string

// The formats.
const (
	CSV      Format = "csv"
	Auth     Format = "auth"
	Combined Format = "combined"
)

// ParseFormat reads what somebody typed. "" is allowed and asks Open to detect the format.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case "", CSV, Auth, Combined:
		return f, nil
	}
	return "", fmt.Errorf("format %q is unknown: use csv, auth or combined", name)
}
