package calllog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/loglimit"
)

// Bounds on the lines of one code.
const (
	linesMost = 10
	linesPer  = 10 * time.Second
)

// Log is the log of calls. It may be used concurrently.
type Log struct {
	logger *slog.Logger
	slow   time.Duration
	now    func() time.Time
	lines  loglimit.Limit // by code; "ok" for slow calls
}

// New makes a log. Calls that take slow or longer are logged even if they succeeded; 0 disables that.
func New(logger *slog.Logger, slow time.Duration, now func() time.Time) *Log {
	return &Log{logger: logger, slow: slow, now: now, lines: loglimit.Limit{Most: linesMost, Per: linesPer}}
}

// ownFailures are the codes of the node's own failures, rather than the caller's: HTTP's, gRPC's and Redis's.
var ownFailures = []string{"unavailable", "aborted", "internal", "unknown", "data_loss", "failed_open", "TRYAGAIN",
	"UNKNOWN"}

// Ended implements decisions.Listener: it logs a call that failed or was slow, if there were not too many.
func (l *Log) Ended(e *decisions.Event) {
	if l == nil || e.TurnedAway || e.Code == "ok" && (l.slow <= 0 || e.Took < l.slow) {
		return
	}
	level, text := slog.LevelInfo, "a call was refused"
	if slices.Contains(ownFailures, e.Code) {
		level, text = slog.LevelWarn, "a call failed"
	} else if e.Code == "ok" {
		level, text = slog.LevelWarn, "a call was slow"
	}
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	left, due := l.lines.Allow(e.Code, l.now())
	if !due {
		return
	}
	method := strings.TrimPrefix(e.Method, "/")
	if e.System == "redis" {
		method = "redis/" + method
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", e.Code),
		slog.Int64("duration_us", e.Took.Microseconds())}
	for _, more := range []struct{ name, value string }{{"caller", e.Caller}, {"policy", e.PolicyOf()},
		{"trace_id", e.TraceID}, {"reason", e.Failure}} {
		if more.value != "" {
			attrs = append(attrs, slog.String(more.name, more.value))
		}
	}
	if left > 0 {
		attrs = append(attrs, slog.Int("like_this_left_out", left))
	}
	l.logger.LogAttrs(ctx, level, text, attrs...)
}
