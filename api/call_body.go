package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
)

const (
	bodyBytesMax = 1 << 20
	// envelopeBytes is the length of the prefix that gRPC puts before a message.
	envelopeBytes = 5
	// answerWithin is the time that a client has to read an answer.
	answerWithin = 30 * time.Second
)

// exchange is one call and its answer. Only calls through net/http use request, answer and header.
type exchange struct {
	request   boundedBody
	answer    boundedAnswer
	header    http.Header // of the request
	remote    string      // remote address
	port      auth.Port
	conn      *connection
	caller    *auth.Caller // nil if there is no guard
	admission *admission
	taken     int64 // entries taken from admission
	message   any   // of the call; nil until it is admitted
	// If the call asked a gate by a procedure: the gate's path and the code of its answer, which are those of the
	// event.
	gate, gateCode string

	trace trace.Call
	event decisions.Event // what is known so far; reporter.ended completes it
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a call.
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

// errTooLarge is the error of a message above bodyBytesMax.
var errTooLarge = fmt.Errorf("a body has at most %d bytes; send fewer checks in one call", bodyBytesMax)

// boundedBody ends a request body that is too large with this package's own error. Connect's bound would answer
// resource_exhausted, which a rate limiter's client reads as a denial (S9).
type boundedBody struct {
	io.ReadCloser
	left int // bytes that may still come
}

// Read implements io.Reader. Connect passes a *connect.Error on unchanged.
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

// boundedAnswer ends an answer that its client does not read. Otherwise the answer would stay in memory as long as the
// connection. The time runs from the first byte, so a longer stream must clear the deadline with an
// http.ResponseController after its first message.
type boundedAnswer struct {
	http.ResponseWriter
	request *http.Request
	begun   bool
}

// WriteHeader implements http.ResponseWriter. It adds a text to refusals that Connect sends without a body.
func (a *boundedAnswer) WriteHeader(status int) {
	a.begin()
	text := ""
	switch status {
	case http.StatusUnsupportedMediaType:
		if a.request.Method == http.MethodGet {
			text = "a GET has its message in the address: ?connect=v1&encoding=json&message=..., percent-encoded; " +
				"or send POST\n"
			break
		}
		text = fmt.Sprintf("the content type %q is not known here: send Content-Type: "+
			"application/json, application/proto or one of gRPC\n",
			shortened(a.request.Header.Get("Content-Type"), 100))
	case http.StatusMethodNotAllowed:
		text = fmt.Sprintf("the method %s is not answered here: send %s\n", shortened(a.request.Method, 20),
			cmp.Or(a.Header().Get("Allow"), "POST"))
	case http.StatusHTTPVersionNotSupported:
		text = "a stream needs HTTP/2: this server has no TLS to agree on it, " +
			"so send HTTP/2 from the first byte on, as with curl --http2-prior-knowledge; nothing was counted\n"
		if a.request.TLS != nil {
			text = "a stream needs HTTP/2, and the client did not offer it (ALPN h2); nothing was counted\n"
		}
	}
	if text != "" && a.Header().Get("Content-Type") == "" {
		a.Header().Set("Content-Type", "text/plain; charset=utf-8")
		a.ResponseWriter.WriteHeader(status)
		io.WriteString(a.ResponseWriter, text)
		return
	}
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
		// A writer without deadlines is not a connection: it waits for no client.
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(answerWithin))
	}
}

// Flush implements http.Flusher. Connect serves streams only through a Flusher.
func (a *boundedAnswer) Flush() {
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap gives an http.ResponseController access to the connection.
func (a *boundedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
