package replay

import (
	"fmt"
	"time"
)

// Report is the result of a replay. Its JSON form is {"policies":[{"policy","events","admitted","denied",...}]}.
type Report struct {
	Log
	Policies []PolicyReport `json:"policies"`
}

// Log is what a report says of the log, and of how it was replayed.
type Log struct {
	Format     Format `json:"format"`
	Tier       string `json:"tier,omitempty"`
	OutOfOrder int    `json:"outOfOrder"` // events earlier than the one before them
	Reading
}

// PolicyReport is the decisions that one policy would have made.
type PolicyReport struct {
	Policy   string `json:"policy"`
	Events   uint64 `json:"events"`
	Admitted uint64 `json:"admitted"`
	Denied   uint64 `json:"denied"` // the challenged ones included
	// Challenged are those denied only by limits that ask for a challenge.
	Challenged   uint64 `json:"challenged,omitempty"`
	ShadowDenied uint64 `json:"shadowDenied"` // admitted events that a shadowed policy or limit would have denied
	// DeniedBy is in the order of the policy; a denial may have several causes.
	DeniedBy    []LimitDenials `json:"deniedBy"`
	FirstDenial *Denial        `json:"firstDenial,omitempty"` // nil: nothing was denied
	TopDenied   []KeyDenials   `json:"topDenied"`             // the most denied keys, at most 10
	Timeline    *Timeline      `json:"timeline,omitempty"`    // nil: there were no events
}

// LimitDenials counts the denials of one limit.
type LimitDenials struct {
	Limit  string `json:"limit"`
	Denied uint64 `json:"denied"`
}

// KeyDenials counts the denials of one key.
type KeyDenials struct {
	Key    string `json:"key"`
	Denied uint64 `json:"denied"`
}

// Denial is one denied event.
type Denial struct {
	Time time.Time `json:"time"` // UTC: the instant at which it was decided
	Key  string    `json:"key"`
	Line int       `json:"line"`
}

// String formats the denial in one line for display.
func (d *Denial) String() string {
	return fmt.Sprintf("%s  %s  (line %d)", d.Time.Format(time.RFC3339Nano), d.Key, d.Line)
}
