package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one error in the policies of a file.
type Problem struct {
	Line, Column int    // from 1; 0 if the position is not known
	Path         string // of the field, such as "login.limits[0].quota"; "" for the file itself
	Message      string
}

// ParseError is the list of all errors in a file. Its text has one line for each problem:
//
//	policies.yaml:12:15: login.limits[0].quota: must not be negative
type ParseError struct {
	File     string
	Problems []Problem // in the order of the file
}

// problemsShownMax keeps the error text readable if the file is not a policies file at all.
const problemsShownMax = 50

// Error implements error.
func (e *ParseError) Error() string {
	var text strings.Builder
	for i, p := range e.Problems {
		if i == problemsShownMax {
			fmt.Fprintf(&text, "\n%s: and %d more", e.File, len(e.Problems)-i)
			break
		}
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(e.File)
		if p.Line > 0 {
			fmt.Fprintf(&text, ":%d:%d", p.Line, p.Column)
		}
		if p.Path != "" {
			text.WriteString(": " + p.Path)
		}
		text.WriteString(": " + p.Message)
	}
	return text.String()
}

// shown returns text from a file in the form used in errors: short, on one line, and quoted unless it is a name.
func shown(text string) string {
	const bytesMax = 40
	if NameProblem(text) == "" {
		return text
	}
	if len(text) > bytesMax {
		return strconv.Quote(strings.ToValidUTF8(text[:bytesMax], "")) + "..."
	}
	return strconv.Quote(text)
}
