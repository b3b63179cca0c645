package api

import (
	"bytes"
	"log/slog"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// These bound the log: any client can make net/http write a line for each of its connections.
const (
	logLinesMost = 10
	logLinesPer  = 10 * time.Second
)

// serverLog logs the messages of net/http about connections: at most logLinesMost lines in logLinesPer, and then the
// number of dropped lines.
type serverLog struct {
	logger *slog.Logger
	now    func() time.Time
	lines  loglimit.Limit // of all messages together
}

func newServerLog(logger *slog.Logger, now func() time.Time) *serverLog {
	return &serverLog{logger: logger, now: now, lines: loglimit.Limit{Most: logLinesMost, Per: logLinesPer}}
}

// Write implements io.Writer for log.Logger, which writes each message in one call. It drops messages about connections
// that close without a request, such as those of a load balancer or of a command that probes for a node.
func (b *serverLog) Write(line []byte) (int, error) {
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
