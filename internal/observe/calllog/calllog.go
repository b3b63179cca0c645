package calllog

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
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

// New makes a log. Calls that take slow or longer are logged although they succeeded; 0: none are.
func New(logger *slog.Logger, slow time.Duration, now func() time.Time) *Log {
	return &Log{logger: logger, slow: slow, now: now, told: make(map[string]*lines)}
}

// Call is a call that has ended.
type Call struct {
	Method, Code string // as in metrics; the code is "ok" for a call that was answered
	Took         time.Duration
	Caller       string // the name of the token or role; "": none was asked for
	Policy       string // "": none, or not known here
	Trace        string // id of the trace in hex; "": it is not followed
	Reason       string // what the node says about its own failure; "": nothing
}

// ours are the codes of failures that are the node's, and not the caller's: HTTP's, gRPC's and Redis's.
var ours = []string{"unavailable", "aborted", "internal", "unknown", "data_loss", "failed_open", "TRYAGAIN", "UNKNOWN"}

// Worth reports whether a call is worth a line, as far as its code and duration say. It is cheap.
func (l *Log) Worth(code string, took time.Duration) bool {
	return l != nil && (code != "ok" || l.slow > 0 && took >= l.slow)
}

// Ended writes a line about a call, if it is worth one and there were not too many.
func (l *Log) Ended(c Call) {
	if !l.Worth(c.Code, c.Took) {
		return
	}
	level, text := slog.LevelInfo, "a call was refused"
	if slices.Contains(ours, c.Code) {
		level, text = slog.LevelWarn, "a call failed"
	} else if c.Code == "ok" {
		level, text = slog.LevelWarn, "a call was slow"
	}
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	unsaid, due := l.due(c.Code)
	if !due {
		return
	}
	attrs := []slog.Attr{slog.String("method", c.Method), slog.String("code", c.Code), slog.Int64("duration_us", c.Took.Microseconds())}
	for _, more := range []struct{ name, value string }{{"caller", c.Caller}, {"policy", c.Policy}, {"trace_id", c.Trace}, {"reason", c.Reason}} {
		if more.value != "" {
			attrs = append(attrs, slog.String(more.name, more.value))
		}
	}
	if unsaid > 0 {
		attrs = append(attrs, slog.Int("like_this_left_out", unsaid))
	}
	l.logger.LogAttrs(ctx, level, text, attrs...)
}

// due reports whether a code may have one more line, and how many were left out since its last one.
func (l *Log) due(code string) (unsaid int, due bool) {
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
	if now := l.now(); now.Sub(of.since).Abs() >= linesPer {
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
