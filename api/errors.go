package api

import (
	"context"
	"errors"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// retryDelay is the wait named with an unavailable that brought none of its own: about what a new owner needs to open.
const retryDelay limit.Span = 100_000

// notBuilt is the error of a part of the contract that this version does not have.
func notBuilt(what string) error {
	return &shard.Error{Code: shard.NotBuilt, Message: what + " is not built yet"}
}

// codeOf is the one place where an error gets its RPC code (SEMANTICS S9). No failure of ours becomes
// resource_exhausted, which a client of a rate limiter reads as a denial. The errors of a context are connect's, which
// begins no call that is over; once it has begun, the Decider tells its fate.
func codeOf(err error) connect.Code {
	var failure *shard.Error
	switch {
	case errors.As(err, &failure):
		return codeOfShard(failure.Code)
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
	case shard.PolicyNotFound:
		return connect.CodeNotFound
	case shard.IDReused:
		return connect.CodeAlreadyExists
	case shard.IDExpired, shard.TooLate, shard.Conflict, shard.HoldEnded, shard.OverQuota:
		return connect.CodeFailedPrecondition
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.MemoryFull,
		shard.SessionGone:
		return connect.CodeUnavailable
	case shard.NotBuilt:
		return connect.CodeUnimplemented
	case shard.UnknownOutcome:
		return connect.CodeAborted
	}
	return connect.CodeInternal
}

// failureOf is the error as a message: the detail of a call's error, and the answer to one check of a batch.
func failureOf(err error) *stintv1.Failure {
	var failure *shard.Error
	return &stintv1.Failure{
		Code:         codeOf(err).String(),
		Message:      err.Error(),
		MaybeApplied: errors.As(err, &failure) && failure.MaybeApplied(),
	}
}

// codedError is the error of a whole call.
func codedError(err error) *connect.Error {
	coded := connect.NewError(codeOf(err), err)
	addDetail(coded, failureOf(err))
	if coded.Code() == connect.CodeUnavailable {
		addRetryDelay(coded, err)
	}
	return coded
}

// failed is the error of a call that never reached a handler.
func failed(code connect.Code, message string) *connect.Error {
	coded := connect.NewError(code, errors.New(message))
	addDetail(coded, &stintv1.Failure{Code: code.String(), Message: message})
	return coded
}

func addRetryDelay(coded *connect.Error, err error) {
	delay := retryDelay
	var failure *shard.Error
	if errors.As(err, &failure) && failure.RetryAfter > 0 {
		delay = failure.RetryAfter
	}
	addDetail(coded, &errdetails.RetryInfo{RetryDelay: durationOf(delay)})
	coded.Meta().Set("Retry-After", strconv.FormatInt(seconds(delay), 10))
}

func addDetail(coded *connect.Error, detail proto.Message) {
	d, err := connect.NewErrorDetail(detail)
	if err != nil {
		panic(err) // our own messages can always be marshalled
	}
	coded.AddDetail(d)
}

// seconds rounds up: asked again that much later, it is late enough.
func seconds(span limit.Span) int64 {
	const second = limit.Span(time.Second / time.Microsecond)
	whole := span / second
	if span%second > 0 {
		whole++
	}
	return int64(whole)
}
