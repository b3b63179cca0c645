package bench

import (
	"errors"
	"fmt"
)

// fate is the outcome of one check.
type fate uint8

const (
	allowed fate = iota
	denied
	failed  // certainly not counted
	unknown // counted once or not at all
)

// callError is a call, or one check of a batch, without a decision.
type callError struct {
	code    string // Connect's name of the code, or "connection"
	message string
	fate    fate
	partial bool // the call's other checks have their own fates, already written
}

// Error implements error.
func (e *callError) Error() string { return e.code + ": " + e.message }

// refused returns the error of a call that the server answered with a code. The codes are those of S9: any code that is not
// on the list of certain failures may have been counted.
func refused(code, message string, maybeApplied bool) *callError {
	e := &callError{code: code, message: message, fate: unknown}
	switch code {
	case "unavailable", "not_found", "invalid_argument", "permission_denied", "already_exists", "failed_precondition",
		"unauthenticated", "unimplemented", "resource_exhausted":
		e.fate = failed
	}
	if maybeApplied {
		e.fate = unknown
	}
	return e
}

// broken returns the error of a call that got no answer. It certainly failed only if nothing was sent.
func broken(sent bool, err error) *callError {
	e := &callError{code: "connection", message: err.Error(), fate: failed}
	if sent {
		e.fate = unknown
	}
	return e
}

func asCallError(err error) *callError {
	var e *callError
	if errors.As(err, &e) {
		return e
	}
	return &callError{code: "unknown", message: fmt.Sprint(err), fate: unknown}
}
