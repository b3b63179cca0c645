package policy

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
)

// Format writes a set as its one canonical YAML text: Parse reads it back to an equal set, and equal sets have equal
// bytes. Optional fields with their default value are left out, except for the numbers of a lockout, which only make
// sense together. A nil set is an empty one. Format may be called concurrently.
func Format(s *Set) []byte {
	s = cmp.Or(s, emptySet)
	f := &file{Rules: s.rules}
	for _, name := range s.names {
		f.Policies = append(f.Policies, s.byName[name])
	}
	return appendLines(nil, fileKind.nodeOf(f), 0)
}

// FormatPolicy writes one policy as Format does, as if it were the only one in the file, and without the indentation.
// It may be called concurrently.
func FormatPolicy(p *Policy) []byte {
	return appendLines(nil, policiesKind.nodeOf(&[]*Policy{p}), 0)
}

// Row is a limit or another field of a policy, with its text as Format writes it.
type Row struct{ Name, Text string }

// Rows returns the limits of a policy, and then its other fields except its tiers. It may be called concurrently.
func (p *Policy) Rows() (rows []Row) {
	var others []Row
	fields := policyKind.nodeOf(p).Content
	for i := 0; i < len(fields); i += 2 {
		switch name := fields[i].Value; name {
		case "limits":
			for _, l := range fields[i+1].Content {
				rows = append(rows, Row{l.Content[1].Value, string(appendFlow(nil, mappingNode(l.Content[2:]...)))})
			}
		case "tiers", "default_tier":
		default:
			others = append(others, Row{name, string(appendFlow(nil, fields[i+1]))})
		}
	}
	return append(rows, others...)
}

// SpanText returns a length of time exactly, in the form of a policies file: the form of time.Duration, but without
// trailing zero units and in ASCII, such as 24h instead of 24h0m0s, and 5us.
func SpanText(s limit.Span) string {
	if s > spanMax {
		return strconv.FormatInt(int64(s), 10) + "us"
	}
	text := (time.Duration(s) * time.Microsecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.Replace(text, "µ", "u", 1)
}
