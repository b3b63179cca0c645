package decisions

// Count is a number of things with the same two names.
type Count struct {
	Name, Kind string // a policy and an outcome, or a command and its code
	N          int
}

// Denied reports whether the outcome is a denial.
func (c Count) Denied() bool {
	switch c.Kind {
	case "denied", "denied_cached", "challenged", "locked_out":
		return true
	}
	return false
}

// Add counts one more thing at the end of a list.
func Add(counts []Count, name, kind string) []Count {
	if last := len(counts) - 1; last >= 0 && counts[last].Name == name && counts[last].Kind == kind {
		counts[last].N++
		return counts
	}
	return append(counts, Count{name, kind, 1})
}

// CommandCount is the number of commands of a round.
func (e *Event) CommandCount() (n int) {
	for _, c := range e.Commands {
		n += c.N
	}
	return n
}
