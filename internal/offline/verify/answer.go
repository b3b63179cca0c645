package verify

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/internal/offline/bench"
)

// fate is what a client learned from an attempt.
type fate int

const (
	admitted fate = iota
	denied
	refused // certainly not counted: the server answered so, or the request was never sent
	unknown // counted once or not at all
	wrong   // an answer that a correct server never gives
)

// answer is the outcome of one attempt. Only a decision has the numbers.
type answer struct {
	fate     fate
	code     string // why there is no decision
	message  string
	used     uint64
	quota    uint64
	at       int64 // shard time of the decision, microseconds since the Unix epoch
	place    place
	replayed bool
	id       string // the decision's
}

// failed returns the fate of a call without an answer. Only a few codes (S9), and an answer that was not read to its
// end, are the way of a correct server.
func failed(err error) answer {
	failure, was := bench.FailureOf(err)
	a := answer{fate: unknown, code: failure.Code, message: failure.Message}
	if was == bench.Failed {
		a.fate = refused
	}
	switch code := connect.CodeOf(err); {
	case code == connect.CodeUnavailable, code == connect.CodeAborted, code == connect.CodeDeadlineExceeded,
		code == connect.CodeCanceled, code == connect.CodeUnknown && !connect.IsWireError(err):
	default:
		a.fate = wrong
	}
	return a
}

// cause returns what broke the connection of a failed call, or nil if the server answered.
func cause(err error) error {
	var failure *connect.Error
	if connect.IsWireError(err) || !errors.As(err, &failure) {
		return nil
	}
	return failure.Unwrap()
}
