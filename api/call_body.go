package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

const (
	bodyBytesMax = 1 << 20
	// envelopeBytes is the length of the prefix that gRPC puts before a message.
	envelopeBytes = 5
)

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
