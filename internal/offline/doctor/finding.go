package doctor

import (
	"fmt"
	"io"
)

// Condition is the severity of a finding.
type Condition string

// The conditions.
const (
	Fine    Condition = "ok"
	Unknown Condition = "unknown" // it could not be examined
	Suspect Condition = "warn"    // it works now, but is at risk
	Wrong   Condition = "wrong"
)

// Finding is the result of a check.
type Finding struct {
	Check string    `json:"check"`
	State Condition `json:"state"`
	Found string    `json:"found"`
	Do    string    `json:"do,omitempty"` // what to do about it
}

// Print writes findings as text.
func Print(out io.Writer, findings []Finding) {
	width := len("CHECK")
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	fmt.Fprintf(out, "%-*s  %-7s  FOUND\n", width, "CHECK", "STATE")
	for _, f := range findings {
		fmt.Fprintf(out, "%-*s  %-7s  %s\n", width, f.Check, f.State, f.Found)
		if f.Do != "" {
			fmt.Fprintf(out, "%-*s  -> %s\n", width+9, "", f.Do)
		}
	}
}

// plural returns "1 node" or "3 nodes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
