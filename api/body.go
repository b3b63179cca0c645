package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
)

const (
	bodyBytesMax = 1 << 20
	// envelopeBytes is what gRPC puts before a message.
	envelopeBytes = 5
	// answerWithin is how long a client may take to read an answer.
	answerWithin = 30 * time.Second
)

// exchange is one call and its answer. The bounds of both, header and remote are of those that net/http serves.
type exchange struct {
	request boundedBody
	answer  boundedAnswer
	header  http.Header // of the request
	remote  string      // where it came from
	room    *room
	taken   int64 // entries of room
}

type exchangeKey struct{}

// exchangeOf is the exchange in which a call came.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// bound gives every request its exchange, and gives back what it took of the room when its answer is written.
func bound(next http.Handler, room *room) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{answer: boundedAnswer{ResponseWriter: w}, header: r.Header, remote: r.RemoteAddr, room: room}
		defer x.end()
		r = r.WithContext(x.within(r.Context()))
		if r.Body != nil && r.Body != http.NoBody {
			x.request = boundedBody{ReadCloser: r.Body, left: bodyBytesMax + envelopeBytes}
			r.Body = &x.request
		}
		next.ServeHTTP(&x.answer, r)
	})
}

// within is the context of the exchange's call.
func (x *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func (x *exchange) end() { x.room.give(x.taken) }

// errTooLarge is said of a message.
var errTooLarge = fmt.Errorf("a body has at most %d bytes; send fewer checks in one call", bodyBytesMax)

// boundedBody ends a request body that is too large with an error of ours. Connect's own bound answers
// resource_exhausted, which a client of a rate limiter reads as a denial (SEMANTICS S9).
type boundedBody struct {
	io.ReadCloser
	left int // bytes that may still come
}

// Read implements io.Reader. Connect passes a *connect.Error on as it is.
func (b *boundedBody) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		b.left = 0
		return 0, failed(connect.CodeInvalidArgument, "message: "+errTooLarge.Error())
	}
	return n, err
}

// boundedAnswer ends an answer that its client does not read: it would stay in memory for as long as the connection.
// The time runs from the first byte on, so a stream that is to last longer must clear the deadline with an
// http.ResponseController after its first message.
type boundedAnswer struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (a *boundedAnswer) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *boundedAnswer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

func (a *boundedAnswer) begin() {
	if !a.begun {
		a.begun = true
		// A writer that knows no deadlines is no connection, and waits for no client.
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(answerWithin))
	}
}

// Flush implements http.Flusher, without which connect serves no streams.
func (a *boundedAnswer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets an http.ResponseController reach the connection.
func (a *boundedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
