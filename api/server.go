package api

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/observe/loglimit"
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
		ErrorLog: log.New(newBoundedLog(logger, time.Now), "", 0),
	}
}

// These bound the log: any client can make net/http write a line for each of its connections.
const (
	logLinesMost = 10
	logLinesPer  = 10 * time.Second
)

// boundedLog logs the messages of net/http about connections: at most logLinesMost lines in logLinesPer, and then the
// number of dropped lines.
type boundedLog struct {
	logger *slog.Logger
	now    func() time.Time
	lines  loglimit.Limit
}

func newBoundedLog(logger *slog.Logger, now func() time.Time) *boundedLog {
	return &boundedLog{logger: logger, now: now, lines: loglimit.Limit{Most: logLinesMost, Per: logLinesPer}}
}

// Write implements io.Writer for log.Logger, which writes each message in one call. It drops messages about connections
// that close without a request, such as those of a load balancer or of a command that probes for a node.
func (b *boundedLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) && bytes.HasSuffix(line, []byte(": EOF\n")) {
		return len(line), nil
	}
	left, ok := b.lines.Allow("", b.now())
	if left > 0 {
		b.logger.Warn("more of the like was left out of the log", "lines", left)
	}
	if ok {
		b.logger.Warn(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}
