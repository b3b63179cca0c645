package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/internal/offline/bench"
)

// asking has the flags of every command that calls a server and prints the answer.
type asking struct {
	output
	remote
}

// as returns the flags for an ask in the name of an actor, for the audit log.
func (a asking) as(actor string) asking {
	a.actor = actor
	return a
}

// maybeCounted is the maybe of calls that change a key's usage: see explain.
const maybeCounted = "it may have been counted: repeat it with the same --id to learn; without one a repeat counts " +
	"again"

// maybeDone is the maybe of other changes that take an --id.
const maybeDone = "it may have been done: repeat it with the same --id to learn; without one a repeat does it again"

// ask makes one call. See explain for what and maybe.
func ask[Q, A any](
	r remote, what, maybe string, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), m *Q,
) (*A, error) {
	ctx, cancel := r.context()
	defer cancel()
	request := connect.NewRequest(m)
	if r.actor != "" {
		request.Header().Set("Stint-Actor", r.actor)
	}
	answer, err := call(ctx, request)
	if err != nil {
		return nil, told{r.explain(ctx, what, err, maybe), err}
	}
	return answer.Msg, nil
}

// asked is ask and show.
func asked[Q, A any](
	s streams, a asking, what, maybe string,
	call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), m *Q, text func(streams, *A),
) error {
	answer, err := ask(a.remote, what, maybe, call, m)
	return show(s, a.output, answer, err, text)
}

// context returns a context that ends with the timeout. It records whether a connection was ever available to write a
// request to. The error alone does not tell, because a slow dial ends like any other slow call.
func (r remote) context() (context.Context, context.CancelFunc) {
	connected := new(atomic.Bool)
	ctx := context.WithValue(context.Background(), connectedKey{}, connected)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return context.WithTimeout(ctx, r.Timeout)
}

// connectedKey is the key of the *atomic.Bool in a context of remote.
type connectedKey struct{}

// neverSent reports whether a context of remote never had a connection.
func neverSent(ctx context.Context) bool {
	connected, ok := ctx.Value(connectedKey{}).(*atomic.Bool)
	return ok && !connected.Load()
}

// told is an error for display. It wraps the cause, so that await can read its code.
type told struct {
	error
	cause error
}

// Unwrap lets errors.As find the cause.
func (t told) Unwrap() error { return t.cause }

// explain turns a failed call into an error for display: what failed, on what, and what to do. ctx is the call's
// context. maybe is the text for a call that may have been carried out, or "".
func (r remote) explain(ctx context.Context, what string, err error, maybe string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: no answer: is stint running at %s? (stint serve --dev starts one; --addr or STINT_ADDR "+
			"says where it is)", what, r.where())
	}
	why := tlsProblem(err)
	if why == "" && !connect.IsWireError(err) {
		why = r.refusesUs(context.WithoutCancel(ctx))
	}
	if why != "" {
		return fmt.Errorf("%s: no answer from %s: %s", what, r.where(), why)
	}
	text := fmt.Sprintf("%s: no answer from %s: %v", what, r.where(), err)
	var failure *connect.Error
	if errors.As(err, &failure) {
		text = fmt.Sprintf("%s: no answer from %s: %s", what, r.where(), innermost(failure))
		if connect.IsWireError(err) {
			text = fmt.Sprintf("%s: %s: %s", what, failure.Code(), failure.Message())
		}
	}
	if maybe != "" && !neverSent(ctx) && maybeApplied(err) {
		text += " (" + maybe + ")"
	}
	return errors.New(text)
}

// innermost returns the cause of an error, without the texts of the outer errors.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// maybeApplied reports whether a sent request may have been counted, by the server's answer or for lack of one.
func maybeApplied(err error) bool {
	_, fate := bench.FailureOf(err)
	return fate == bench.Unknown
}
