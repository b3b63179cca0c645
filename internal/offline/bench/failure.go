package bench

import (
	"context"
	"errors"
	"net"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	stint "github.com/stint-io/stint/client"
)

// Failure is why a call, or a check of a batch, has no decision.
type Failure struct {
	Code    string // Connect's name of the code, or ConnectionLost
	Message string
}

// ConnectionLost is the code of a call that ended without any answer. Its caller pauses before the next call.
const ConnectionLost = "connection"

// NeverSent reports whether a call failed before there was a connection.
func NeverSent(err error) bool {
	var failure *net.OpError
	return errors.As(err, &failure) && failure.Op == "dial"
}

// FailureOf returns why a call failed, and the fate of its checks. The codes of a server without details are those of
// S9: any code that is not on the list of certain failures may have been counted.
func FailureOf(err error) (*Failure, Fate) {
	var ours *stint.Error
	if errors.As(err, &ours) {
		return &Failure{ours.Code, ours.Message}, fateOf(ours.MaybeApplied)
	}
	var answer *connect.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{"deadline_exceeded", err.Error()}, Unknown
	case !connect.IsWireError(err) || !errors.As(err, &answer):
		return &Failure{ConnectionLost, err.Error()}, fateOf(!NeverSent(err))
	}
	for _, detail := range answer.Details() {
		value, err := detail.Value()
		if f, ok := value.(*stintv1.Failure); ok && err == nil {
			return &Failure{f.Code, f.Message}, fateOf(f.MaybeApplied)
		}
	}
	failure := &Failure{answer.Code().String(), answer.Message()}
	switch answer.Code() {
	case connect.CodeUnavailable, connect.CodeNotFound, connect.CodeInvalidArgument, connect.CodePermissionDenied,
		connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeUnauthenticated,
		connect.CodeUnimplemented, connect.CodeResourceExhausted:
		return failure, Failed
	}
	return failure, Unknown
}
