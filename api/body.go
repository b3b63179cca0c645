package api

import (
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

const (
	bodyBytesMax = 1 << 20
	// envelopeBytes is what gRPC puts before a message.
	envelopeBytes = 5
)

// boundBodies ends a request body that is too large with an error of ours. Connect's own bound answers
// resource_exhausted, which a client of a rate limiter reads as a denial (SEMANTICS S9).
func boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &boundedBody{ReadCloser: r.Body, left: bodyBytesMax + envelopeBytes}
		}
		next.ServeHTTP(w, r)
	})
}

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
		return 0, failed(connect.CodeInvalidArgument,
			fmt.Sprintf("message: a body has at most %d bytes; send fewer checks in one call", bodyBytesMax))
	}
	return n, err
}
