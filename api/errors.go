package api

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// retryDelay is the wait named by an unavailable error that has none of its own: about the time that a new owner needs
// to open.
const retryDelay limit.Span = 100_000

// codeOf is the only function that gives an error its RPC code (S9). No failure of the server becomes
// resource_exhausted, which a rate limiter's client reads as a denial. A context error means that the context had ended
// before the call began; after that, the Decider reports the fate.
func codeOf(err error) connect.Code {
	var failure *shard.Error
	var refusal *auth.Refusal
	switch {
	case errors.As(err, &failure):
		return codeOfShard(failure.Code)
	case errors.As(err, &refusal):
		return codeOfRefusal(refusal)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	}
	return connect.CodeInternal
}

func codeOfShard(code shard.Code) connect.Code {
	switch code {
	case shard.Invalid:
		return connect.CodeInvalidArgument
	case shard.PolicyNotFound, shard.KeyNotFound:
		return connect.CodeNotFound
	case shard.IDReused:
		return connect.CodeAlreadyExists
	case shard.IDExpired, shard.TooLate, shard.Conflict, shard.HoldEnded, shard.OverQuota:
		return connect.CodeFailedPrecondition
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.MemoryFull,
		shard.SessionGone, shard.Outdated:
		return connect.CodeUnavailable
	case shard.NotBuilt:
		return connect.CodeUnimplemented
	case shard.UnknownOutcome:
		return connect.CodeAborted
	}
	return connect.CodeInternal
}

func codeOfRefusal(r *auth.Refusal) connect.Code {
	switch r.Kind {
	case auth.NotGranted:
		return connect.CodePermissionDenied
	case auth.Unavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeUnauthenticated
}

// codeNameOf returns the name of an error's code.
func codeNameOf(err *shard.Error) string { return codeOf(err).String() }

// failureOf translates an error into a message: the detail of a call's error, or the answer to one check of a batch.
func failureOf(err error) *stintv1.Failure {
	var failure *shard.Error
	return &stintv1.Failure{
		Code:         codeOf(err).String(),
		Message:      errorText(err),
		MaybeApplied: errors.As(err, &failure) && failure.MaybeApplied(),
	}
}

// failureText returns the text of a failure of this node. Such texts are about nodes and shards, and repeat nothing of
// a request.
func failureText(err error) string {
	failure, ok := errors.AsType[*shard.Error](err)
	if !ok {
		return ""
	}
	switch failure.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.SessionGone, shard.UnknownOutcome:
		const most = 300
		return shortened(failure.Message, most)
	}
	return ""
}

// protoErrorText removes the prefix of the protobuf library's errors and shortens the text. The space in that prefix is
// one of two characters, chosen at random for each build of a program.
func protoErrorText(err error) string {
	const most = 300
	text := strings.TrimPrefix(err.Error(), "proto:")
	return shortened(strings.TrimLeft(text, " \u00a0"), most)
}

// codedError returns the error of a whole call.
func codedError(err error) *connect.Error {
	if passed, ok := errors.AsType[*connect.Error](err); ok {
		return passed // of the node that has answered in an edge's place
	}
	coded := connect.NewError(codeOf(err), errors.New(errorText(err)))
	addDetail(coded, failureOf(err))
	if coded.Code() == connect.CodeUnavailable {
		addRetryDelay(coded, err)
	}
	return coded
}

// failed returns the error of a call that never reached a handler.
func failed(code connect.Code, message string) *connect.Error {
	message = shortened(message, errorTextMax)
	coded := connect.NewError(code, errors.New(message))
	addDetail(coded, &stintv1.Failure{Code: code.String(), Message: message})
	return coded
}

// addRetryDelay tells the wait that an error names, or retryDelay: exactly in a detail, and in whole seconds, rounded
// up, in a header.
func addRetryDelay(coded *connect.Error, err error) {
	delay := retryDelay
	if failure, ok := errors.AsType[*shard.Error](err); ok && failure.RetryAfter > 0 {
		delay = failure.RetryAfter
	}
	addDetail(coded, &errdetails.RetryInfo{RetryDelay: durationOf(delay)})
	coded.Meta().Set("Retry-After", strconv.FormatInt(seconds(delay), 10))
}

// addDetail drops a detail that cannot be marshaled, so that the call still gets its answer. That never happens,
// because every text is UTF-8 at this point (errorText).
func addDetail(coded *connect.Error, detail proto.Message) {
	if d, err := connect.NewErrorDetail(detail); err == nil {
		coded.AddDetail(d)
	}
}

// errorTextMax bounds the text of an error in bytes; an answer contains it three times. The longest text lists twenty
// problems of a policies file, and gRPC sends it in a header.
const errorTextMax = 6 << 10

// errorText returns the text of an error as UTF-8, even if it repeats part of a request: other text cannot be
// marshaled.
func errorText(err error) string { return shortened(err.Error(), errorTextMax) }

// shortened returns a text as UTF-8 of at most so many bytes.
func shortened(text string, most int) string {
	if len(text) > most {
		text = text[:most-len("...")] + "..."
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

var errorWriter = connect.NewErrorWriter()
