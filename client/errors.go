package client

import (
	"errors"
	"net"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Error says why there is no decision. It is never a denial.
type Error struct {
	Code    string // name of the RPC code, as in "unavailable"
	Message string // what failed, on what, and what to do
	// MaybeApplied is true if the request was counted once or not at all; a retry with the same idempotency id tells
	// which. If it is false, the request was certainly not counted.
	MaybeApplied bool

	unreached bool // no connection could be made
}

// Error implements error.
func (e *Error) Error() string { return "stint: " + e.Code + ": " + e.Message }

// mayAskAgain reports whether a retry is safe and can help. countsOnce says that sending the request twice counts it once.
func (e *Error) mayAskAgain(countsOnce bool) bool {
	if e.MaybeApplied {
		return countsOnce
	}
	return e.Code == connect.CodeUnavailable.String()
}

// failed translates the error of a call. An error without the server's Failure detail counts as maybe applied, unless
// no connection could be made to send the request.
func failed(err error) *Error {
	e := &Error{Code: connect.CodeOf(err).String(), Message: err.Error(), MaybeApplied: true}
	var coded *connect.Error
	if errors.As(err, &coded) {
		e.Message = coded.Message()
		for _, d := range coded.Details() {
			value, err := d.Value()
			if f, ok := value.(*stintv1.Failure); ok && err == nil {
				e.MaybeApplied = f.MaybeApplied
				return e
			}
		}
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		e.MaybeApplied, e.unreached = false, true
	}
	if e.MaybeApplied {
		e.Code = connect.CodeAborted.String() // the server's code for this fate
	}
	return e
}
