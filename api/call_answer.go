package api

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerWithin is the time that a client has to read an answer.
const answerWithin = 30 * time.Second

// boundedAnswer ends an answer that its client does not read. Otherwise the answer would stay in memory as long as the
// connection. The time runs from the first byte, so a longer stream must clear the deadline with an
// http.ResponseController after its first message.
type boundedAnswer struct {
	http.ResponseWriter
	request *http.Request // as it came, for the texts of refusals
	begun   bool          // the deadline is set; sendOne clears this before each message of a stream
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

// awaitReader waits until an answer is on its way. With HTTP/2 a client may make it wait, which net/http otherwise does
// after the handler has returned.
func awaitReader(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor > 1 {
		_ = http.NewResponseController(w).Flush() // a writer without a connection does not wait
	}
}

// answerRecorder keeps an answer in memory.
type answerRecorder struct {
	bytes.Buffer
	header http.Header
	status int // 0 before WriteHeader: writing alone sets none
}

// Header implements http.ResponseWriter.
func (w *answerRecorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answerRecorder) WriteHeader(status int) { w.status = status }
