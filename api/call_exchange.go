package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
)

// exchange is one call and its answer. Only calls through net/http use request, answer and header.
type exchange struct {
	request   boundedBody
	answer    boundedAnswer
	header    http.Header // of the request
	remote    string      // remote address
	port      auth.Port
	conn      *connection  // nil if it is unknown
	caller    *auth.Caller // nil if there is no guard, or before it has admitted the call
	tokens    *auth.Set    // by which the caller was admitted
	admission *admission
	taken     int64 // entries taken from admission, which end gives back
	message   any   // of the call; nil until it is admitted
	// If the call asked a gate by a procedure: the gate's path and the code of its answer, which are those of the
	// event.
	gate, gateCode string

	trace trace.Call
	event decisions.Event // what is known so far; reporter.ended completes it
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a call. It panics if the call has none: bound, keepOutGRPC and others give it one.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// bound gives every request its exchange, and gives the exchange's room back when the answer is written.
func bound(next http.Handler, port auth.Port, room *admission) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{answer: boundedAnswer{ResponseWriter: w, request: r}, header: r.Header,
			remote: r.RemoteAddr, port: port, admission: room}
		x.conn = connectionOf(r.Context())
		defer x.end()
		r = r.WithContext(x.within(r.Context()))
		if r.Body != nil && r.Body != http.NoBody {
			x.request = boundedBody{ReadCloser: r.Body, left: bodyBytesMax + envelopeBytes}
			r.Body = &x.request
		}
		next.ServeHTTP(&x.answer, r)
	})
}

// within returns a context that carries the exchange.
func (x *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// end is called when the answer is written, or handed to the code that writes it.
func (x *exchange) end() { x.admission.give(x.taken) }

// protocolName returns the protocol of the call.
func (x *exchange) protocolName() string {
	if x.header == nil {
		return "grpc"
	}
	kind := ""
	if values := x.header["Content-Type"]; len(values) > 0 {
		kind = values[0]
	}
	switch {
	case strings.HasPrefix(kind, "application/grpc-web"):
		return "grpc-web"
	case strings.HasPrefix(kind, "application/grpc"):
		return "grpc"
	case strings.Contains(kind, "json"):
		return "json"
	}
	return "connect"
}

// beginStream lifts the deadline of one request: net/http goes on reading, to detect when the client leaves.
func (x *exchange) beginStream() error { return x.deadline((*http.ResponseController).SetReadDeadline) }

// sendOne sends one message of a stream with its own deadline for the client to read it: the pause between two messages
// may be long.
func (x *exchange) sendOne(send func() error) error {
	x.answer.begun = false
	if err := send(); err != nil {
		return err
	}
	return x.deadline((*http.ResponseController).SetWriteDeadline)
}

// deadline lifts a deadline. A writer without deadlines is not a connection: it waits for no client.
func (x *exchange) deadline(set func(*http.ResponseController, time.Time) error) error {
	err := set(http.NewResponseController(x.answer.ResponseWriter), time.Time{})
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
