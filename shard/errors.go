package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// Code is why there is no decision. Codes are grouped by fate: every code below UnknownOutcome certainly changed
// nothing; UnknownOutcome may have. The numbers are sent between nodes: append new ones, never renumber.
type Code uint8

// Certainly not applied.
const (
	Invalid        Code = 1 // the request is wrong: Field names the place
	PolicyNotFound Code = 2
	IDReused       Code = 3  // the id was used for another request
	IDExpired      Code = 4  // the id is older than the retention: it is no longer known whether it ran
	NotOwner       Code = 5  // this node does not currently decide for the shard; the log was not consulted
	Overloaded     Code = 6  // no room, or no time left before the deadline
	Draining       Code = 7  // the node is stopping
	Unavailable    Code = 8  // no majority, no live epoch, or low disk
	TooLate        Code = 9  // decided after the request's NotAfter
	MemoryFull     Code = 10 // the shard holds as many records as allowed: it adds none and forgets none
	NotBuilt       Code = 11 // this version does not support the operation
	// Conflict: Swap: the document does not have the expected version. MoveSlot: the slot is not in the state that the
	// step needs.
	Conflict    Code = 12
	SessionGone Code = 13 // the session is unknown, or no longer known: open another
	// HoldEnded is for Settle: the hold has expired, was settled otherwise, or never existed; the same for a decision.
	HoldEnded   Code = 14
	OverQuota   Code = 15 // Settle: the excess over the hold does not fit; the hold is still open
	Unreadable  Code = 16 // this version cannot read the request, or a record that it needs: only this request fails
	Fault       Code = 17 // a defect of this program, to be reported; only this request fails
	Outdated    Code = 18 // the request was made by older policies than the shard's, which require something else
	KeyNotFound Code = 19 // the policy refuses keys without an override, and this key has none
	// Moved: a slot of the request is on another shard, Error.To. If the request was in a session, no copy of it can be
	// counted here any more.
	Moved Code = 20
	// Spread: the slots of the request must be asked one by one, since one is about to move (Reserve), or since they
	// were apart when its first copy was carried out (Settle).
	Spread Code = 21
)

// Maybe applied: zero times or once. A retry with the same idempotency id tells which.
const (
	UnknownOutcome Code = 64
)

// Error is the error type of a shard and its actor. It is immutable.
type Error struct {
	Code Code
	// Invalid, PolicyNotFound, KeyNotFound, NotBuilt: the field at fault, such as "entries[1].key"
	Field      string
	Message    string     // what failed, on which object, and what to do
	RetryAfter limit.Span // a hint for Overloaded, Draining and Unavailable; 0 if none
	To         ID         // Moved: the shard of Slot
	Slot       slot.ID    // Moved; other codes lose it on the way to another node
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

// unreadable returns the error of a request that needs an unreadable record. Records are guarded by checksums and
// written by this package, so either a newer version wrote it, or memory failed, or there is a defect.
func unreadable(field, what string, err error) *Error {
	return errorf(Unreadable, field,
		"%s cannot be read by this version, and nothing was changed: run a newer one (%v)", what, err)
}

// Invalidf returns the error of an invalid field.
func Invalidf(field, format string, args ...any) *Error {
	return errorf(Invalid, field, format, args...)
}

func errorf(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}
