package doctor

import (
	"fmt"
	"io"
)

// Condition is how bad a finding is.
type Condition string

// The conditions.
const (
	Fine    Condition = "ok"
	Unknown Condition = "unknown" // it could not be looked at
	Suspect Condition = "warn"    // it works, and may not go on so
	Wrong   Condition = "wrong"
)

// Finding is what a check has found.
type Finding struct {
	Check string    `json:"check"`
	State Condition `json:"state"`
	Found string    `json:"found"`
	Do    string    `json:"do,omitempty"` // what to do about it
}

// Print writes findings for people.
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
