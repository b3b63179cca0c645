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

// lane answers the plainest calls of one procedure without connect: a POST of Connect's protocol with one message, as
// curl and most clients send it. What connect does for them is a third of their cost, and only a few lines are needed of
// it. Everything else (GET, gRPC, gRPC-Web, encodings, headers that it does not know how to read) is connect's, as are
// the words of errors.
type lane[Req, Res any, P pointer[Req]] struct {
	edge      edge
	procedure string
	answer    func(context.Context, P) (*Res, error)
	otherwise http.Handler
}

// laneEncoding is a content type of a lane.
type laneEncoding struct {
	contentType []string // as a header
	read        func([]byte, proto.Message) error
	write       func([]byte, proto.Message) ([]byte, error)
}

var laneEncodings = []*laneEncoding{
	{[]string{"application/json"}, unmarshalJSON, marshalJSON},
	{[]string{"application/proto"}, proto.Unmarshal, marshalProto},
	{[]string{"application/json; charset=utf-8"}, unmarshalJSON, marshalJSON},
}

var (
	laneErrors  = connect.NewErrorWriter()
	laneBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// laneBufferMax is the largest buffer that is kept: most messages are far smaller.
const laneBufferMax = 64 << 10

func keepLaneBuffer(buffer *[]byte) {
	if cap(*buffer) <= laneBufferMax {
		laneBuffers.Put(buffer)
	}
}

// ServeHTTP implements http.Handler.
func (l *lane[Req, Res, P]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, timeout := laneOf(r)
	if e == nil {
		l.otherwise.ServeHTTP(w, r)
		return
	}
	buffer := laneBuffers.Get().(*[]byte)
	defer keepLaneBuffer(buffer)
	var err error
	var c call[Req, P]
	if *buffer, err = readBody((*buffer)[:0], r); err != nil {
		laneErrors.Write(w, r, err)
		return
	}
	c.read(*buffer, e.read)
	begun, ctx := time.Now(), r.Context()
	var cancel context.CancelFunc
	if timeout >= 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	} else {
		ctx, cancel = l.edge.bounded(ctx)
	}
	defer cancel()
	response, err := answerInTime(ctx, &c, l.answer)
	if coded := l.edge.told(l.procedure, begun, err); coded != nil {
		laneErrors.Write(w, r, coded)
		return
	}
	if *buffer, err = e.write((*buffer)[:0], any(response).(proto.Message)); err != nil {
		laneErrors.Write(w, r, codedError(err))
		return
	}
	header := w.Header()
	header["Content-Type"] = e.contentType
	if len(*buffer) > chunkBytes {
		header["Content-Length"] = []string{strconv.Itoa(len(*buffer))}
	}
	w.Write(*buffer)
}

// chunkBytes is as much as net/http holds back to count it itself.
const chunkBytes = 2048

// laneOf is the encoding of a call that needs no more than a lane, and its timeout; less than 0: it has none. nil: leave
// the call to connect.
func laneOf(r *http.Request) (e *laneEncoding, timeout time.Duration) {
	if r.Method != http.MethodPost || r.Header["Content-Encoding"] != nil || r.Header["Connect-Accept-Encoding"] != nil {
		return nil, 0
	}
	if version := r.Header["Connect-Protocol-Version"]; len(version) > 1 || len(version) == 1 && version[0] != "1" {
		return nil, 0
	}
	timeout = -1
	if text := r.Header["Connect-Timeout-Ms"]; len(text) > 0 {
		const digitsMax = 10 // of Connect's protocol
		ms, err := strconv.ParseUint(text[0], 10, 64)
		if err != nil || len(text) > 1 || len(text[0]) > digitsMax {
			return nil, 0
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	if kind := r.Header["Content-Type"]; len(kind) == 1 {
		for _, e := range laneEncodings {
			if kind[0] == e.contentType[0] {
				return e, timeout
			}
		}
	}
	return nil, 0
}

// readBody appends a body to a buffer. That it is not larger than it may be is the exchange's to see.
func readBody(b []byte, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n > int64(cap(b)) && n <= bodyBytesMax {
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

// bodyError is why a body did not come: it is too large, the client is gone, or it takes too long.
func bodyError(ctx context.Context, err error) error {
	if _, ours := err.(*connect.Error); ours {
		return err
	}
	if ended := ctx.Err(); ended != nil {
		return codedError(ended)
	}
	return failed(connect.CodeUnknown, "message: the body ended early: "+err.Error())
}
