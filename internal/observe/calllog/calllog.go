package calllog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
)

// Bounds on the lines of one code.
const (
	linesMost = 10
	linesPer  = 10 * time.Second
	codesMost = 64 // beyond these, codes share the bound of ""
)

// Log is the log of calls. It may be used concurrently.
type Log struct {
	logger *slog.Logger
	slow   time.Duration
	now    func() time.Time

	mu   sync.Mutex
	told map[string]*lines // by code; "ok": slow calls
}

// lines counts the lines of one code.
type lines struct {
	since        time.Time
	said, unsaid int
}

// New makes a log. Calls that take slow or longer are logged even if they succeeded; 0 disables that.
func New(logger *slog.Logger, slow time.Duration, now func() time.Time) *Log {
	return &Log{logger: logger, slow: slow, now: now, told: make(map[string]*lines)}
}

// ours are the codes of the node's own failures, rather than the caller's: HTTP's, gRPC's and Redis's.
var ours = []string{"unavailable", "aborted", "internal", "unknown", "data_loss", "failed_open", "TRYAGAIN", "UNKNOWN"}

// Ended implements decisions.Listener: it logs a call that failed or was slow, if there were not too many.
func (l *Log) Ended(e *decisions.Event) {
	if l == nil || e.TurnedAway || e.Code == "ok" && (l.slow <= 0 || e.Took < l.slow) {
		return
	}
	level, text := slog.LevelInfo, "a call was refused"
	if slices.Contains(ours, e.Code) {
		level, text = slog.LevelWarn, "a call failed"
	} else if e.Code == "ok" {
		level, text = slog.LevelWarn, "a call was slow"
	}
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	unsaid, due := l.due(e.Code)
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
	if unsaid > 0 {
		attrs = append(attrs, slog.Int("like_this_left_out", unsaid))
	}
	l.logger.LogAttrs(ctx, level, text, attrs...)
}

// due reports whether a code may have one more line, and how many were dropped since its last one.
func (l *Log) due(code string) (unsaid int, due bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.told[code]
	if of == nil {
		if len(l.told) >= codesMost {
			code = ""
		}
		if of = l.told[code]; of == nil {
			of = &lines{}
			l.told[code] = of
		}
	}
	if now.Sub(of.since).Abs() >= linesPer {
		of.since, of.said = now, 0
	}
	if of.said == linesMost {
		of.unsaid++
		return 0, false
	}
	of.said++
	unsaid, of.unsaid = of.unsaid, 0
	return unsaid, true
}
