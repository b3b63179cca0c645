package client

import (
	"errors"
	"net"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Error says why there is no decision. It is never a denial.
type Error struct {
	Code    string // of the RPC, as in "unavailable"
	Message string // what failed, on what, and what to do
	// MaybeApplied: the request was counted once or not at all, and the same idempotency id asked again tells which. Else
	// it was certainly not counted.
	MaybeApplied bool

	unreached bool // no connection
}

// Error implements error.
func (e *Error) Error() string { return "stint: " + e.Code + ": " + e.Message }

// mayAskAgain reports whether the same request may be sent again, and whether that can help.
func (e *Error) mayAskAgain(r *stintv1.CheckRequest) bool {
	if e.MaybeApplied {
		return r.IdempotencyId != ""
	}
	return e.Code == connect.CodeUnavailable.String()
}

// failed reads the error of a call. Without the server's own word it may have been applied, unless there was no
// connection to send it on.
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
		e.Code = connect.CodeAborted.String() // as the server says it
	}
	return e
}
