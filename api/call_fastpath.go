package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// unaryFastPath answers the plainest calls of one procedure without connect: a POST of Connect's protocol with one
// message, as curl and most clients send it. Connect takes a third of the cost of such a call, which needs only a few
// lines of connect's work. All other calls (GET, gRPC, gRPC-Web, encodings, unknown headers) go to connect. Connect
// also writes the errors.
type unaryFastPath[Req, Res any, P pointer[Req]] struct {
	gate      *gatekeeper
	procedure string
	answer    func(context.Context, *call[Req, P]) (*Res, error) // the same one that otherwise calls
	otherwise http.Handler                                       // connect's handler of the procedure
}

// fastPathBuffers are buffers for a message, and then for its answer. keepFastPathBuffer gives them back.
var fastPathBuffers = sync.Pool{New: func() any { return new([]byte) }}

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
