package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// Code says why there is no decision. Codes are grouped by fate: everything before UnknownOutcome certainly changed
// nothing; UnknownOutcome may have. The numbers cross the wire between nodes: append, never renumber.
type Code uint8

// Definitely not applied.
const (
	Invalid        Code = 1 // the request is wrong: Field names where
	PolicyNotFound Code = 2
	IDReused       Code = 3  // the id was used for another request
	IDExpired      Code = 4  // the id is older than the retention: whether it ran can no longer be told
	NotOwner       Code = 5  // this node does not decide for the shard now; nobody asked its log
	Overloaded     Code = 6  // no room, or no time left before the deadline
	Draining       Code = 7  // the node is stopping
	Unavailable    Code = 8  // no majority, no live epoch, or low disk
	TooLate        Code = 9  // decided after the request's NotAfter
	MemoryFull     Code = 10 // the shard holds as many keys as it may: a new one is refused, none is forgotten
	NotBuilt       Code = 11 // asked for something this version does not do
	Conflict       Code = 12 // Swap: the document has another version than was expected
	SessionGone    Code = 13 // the session is not known (any more): open another
	HoldEnded      Code = 14 // Settle: the hold has expired, was settled otherwise, or never was; so with a decision
	OverQuota      Code = 15 // Settle: what was spent above the hold does not fit; the hold is still open
)

// Maybe applied: zero times or once. The same idempotency id asked again tells which.
const (
	UnknownOutcome Code = 64
)

// Error is the one error type of a shard and its actor. It is a value: never changed after it is made.
type Error struct {
	Code       Code
	Field      string     // Invalid, PolicyNotFound, NotBuilt: the field at fault, as in "entries[1].key"
	Message    string     // what failed, on what, and what to do
	RetryAfter limit.Span // a hint for Overloaded, Draining and Unavailable; 0 none
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// MaybeApplied reports whether the request may have been counted.
func (e *Error) MaybeApplied() bool { return e.Code >= UnknownOutcome }

// Invalidf makes the error of a wrong field.
func Invalidf(field, format string, args ...any) *Error {
	return &Error{Code: Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}
