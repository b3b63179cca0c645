package verify

import "fmt"

// kind is the subject of a finding.
type kind string

const (
	overAdmitted  kind = "over-admitted"
	underAdmitted kind = "under-admitted"
	forgotten     kind = "lost"
	doubled       kind = "doubled"
	disordered    kind = "out of order"
	wrongAnswer   kind = "wrong answer"
	unsettled     kind = "unsettled"
)

// found is one error that a correct server does not make.
type found struct {
	kind kind
	text string
}

// Error implements error.
func (f *found) Error() string { return string(f.kind) + ": " + f.text }

func finding(k kind, format string, args ...any) error {
	return &found{k, fmt.Sprintf(format, args...)}
}
