package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// unaryFastPath answers the plainest calls of one procedure without connect: a POST of Connect's protocol with one
// message, as curl and most clients send it. Connect takes a third of the cost of such a call, which needs only a few
// lines of connect's work. All other calls (GET, gRPC, gRPC-Web, encodings, unknown headers) go to connect. Connect
// also writes the errors.
type unaryFastPath[Req, Res any, P pointer[Req]] struct {
	gate      *gatekeeper
	procedure string
	answer    func(context.Context, *call[Req, P]) (*Res, error)
	otherwise http.Handler
}

var (
	errorWriter     = connect.NewErrorWriter()
	fastPathBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// fastPathBufferMax is the largest buffer that is kept for reuse: most messages are far smaller.
const fastPathBufferMax = 64 << 10

func keepFastPathBuffer(buffer *[]byte) {
	if cap(*buffer) <= fastPathBufferMax {
		fastPathBuffers.Put(buffer)
	}
}

// ServeHTTP implements http.Handler.
func (l *unaryFastPath[Req, Res, P]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, timeout := fastPathCodec(r)
	if e == nil {
		l.otherwise.ServeHTTP(w, r)
		return
	}
	buffer := fastPathBuffers.Get().(*[]byte)
	defer keepFastPathBuffer(buffer)
	var err error
	var c call[Req, P]
	if *buffer, err = readBody((*buffer)[:0], r); err != nil {
		errorWriter.Write(w, r, err)
		return
	}
	c.read(*buffer, e.read)
	ctx := r.Context()
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	response, coded := serve(ctx, l.gate, l.procedure, &c, l.answer)
	if coded != nil {
		errorWriter.Write(w, r, coded)
		return
	}
	if *buffer, err = e.write((*buffer)[:0], any(response).(proto.Message)); err != nil {
		errorWriter.Write(w, r, codedError(err))
		return
	}
	header := w.Header()
	header["Content-Type"] = e.contentType
	if wantsPacked(r, *buffer) {
		writePacked(w, *buffer)
		return
	}
	if len(*buffer) > chunkBytes {
		header["Content-Length"] = []string{strconv.Itoa(len(*buffer))}
	}
	w.Write(*buffer)
}

// chunkBytes is the size up to which net/http holds an answer back and counts its length itself.
const chunkBytes = 2048

// fastPathCodec returns the codec of a call that the fast path can serve, and its timeout; a timeout below 0 means
// none. A nil codec leaves the call to connect.
func fastPathCodec(r *http.Request) (e *codec, timeout time.Duration) {
	if r.Method != http.MethodPost || r.Header["Content-Encoding"] != nil ||
		r.Header["Connect-Accept-Encoding"] != nil {
		return nil, 0
	}
	if version := r.Header["Connect-Protocol-Version"]; len(version) > 1 || len(version) == 1 && version[0] != "1" {
		return nil, 0
	}
	timeout, ok := timeoutOf(r)
	if !ok {
		return nil, 0
	}
	if kind := r.Header["Content-Type"]; len(kind) == 1 {
		for _, e := range []*codec{jsonCodec, protoCodec, utf8Codec} {
			if kind[0] == e.contentType[0] {
				return e, timeout
			}
		}
	}
	return nil, 0
}

// timeoutOf returns the timeout of a call by Connect's protocol, below 0 if it has none. It returns false if the
// timeout cannot be read.
func timeoutOf(r *http.Request) (timeout time.Duration, ok bool) {
	text := r.Header["Connect-Timeout-Ms"]
	if len(text) == 0 {
		return -1, true
	}
	const digitsMax = 10 // by Connect's protocol
	ms, err := strconv.ParseUint(text[0], 10, 64)
	if err != nil || len(text) > 1 || len(text[0]) > digitsMax {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// bodyBytesFirst is the size of a request body's buffer before any of the body has arrived.
const bodyBytesFirst = 8 << 10

// readBody appends a body to a buffer that grows with the received bytes: a client could claim a length for free, a
// thousand times on one connection. The exchange enforces the bound.
func readBody(b []byte, r *http.Request) ([]byte, error) {
	if n := min(r.ContentLength, bodyBytesFirst); n > int64(cap(b)) {
		b = make([]byte, 0, n)
	}
	for int64(len(b)) < r.ContentLength || r.ContentLength < 0 {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return b, bodyError(r.Context(), err)
		}
	}
	return b, nil
}

// bodyError returns the reason why a body did not arrive: it is too large, the client has gone, or it took too long.
func bodyError(ctx context.Context, err error) error {
	if _, ours := err.(*connect.Error); ours {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return codedError(ended)
	}
	return failed(connect.CodeUnknown, "message: the body ended early: "+err.Error())
}
