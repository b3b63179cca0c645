package api

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/stint-io/stint/internal/edge/connlimit"
)

// NewServer makes the HTTP server for a handler: HTTP/1, HTTP/2 and HTTP/2 without TLS on one port. The caller listens
// and calls its Serve. The bounds keep a slow or greedy client from holding more than its share (R23).
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			//mutant:http-client-stays-a-stranger
			return context.WithValue(ctx, connectionKey{}, &connection{proven: connlimit.Prover(c)})
		},
		Protocols:         &protocols,
		ReadHeaderTimeout: 5 * time.Second,
		// For one request with its body. Answers have no such bound: a stream of events may last for days.
		ReadTimeout: 30 * time.Second,
		IdleTimeout: 5 * time.Minute,
		// A Get by HTTP GET has its message in the URL: 32 entries with the longest keys are 25 KiB in base64.
		MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1024,
			SendPingTimeout:      30 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
		ErrorLog: log.New(newServerLog(logger, time.Now), "", 0),
	}
}
