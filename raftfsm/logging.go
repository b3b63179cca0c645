package raftfsm

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes hashicorp/raft's log lines to slog at a lower level: raft's information is of interest to its
// developers, its warnings are normal during elections (a single node holds one at every start), and its errors mostly
// report peers that do not answer. The messages that an operator must act on come from this package.
type raftLogger struct {
	to      *slog.Logger
	repeats *repeats // of the node; nil: every line is logged
}

func levelOf(level hclog.Level) slog.Level {
	if level == hclog.Error {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (l raftLogger) enabled(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), levelOf(level))
}

// Log implements hclog.Logger.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if !l.enabled(level) {
		return
	}
	if l.repeats != nil && levelOf(level) >= slog.LevelWarn {
		unsaid, due := l.repeats.due("raft: "+msg, time.Now())
		if !due {
			return
		}
		if unsaid > 0 {
			args = append(args, "unsaid", unsaid)
		}
	}
	for i, arg := range args {
		if f, ok := arg.(hclog.Format); ok {
			args[i] = fmt.Sprintf(f[0].(string), f[1:]...)
		}
	}
	l.to.Log(context.Background(), levelOf(level), "raft: "+msg, args...)
}

func (l raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l raftLogger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l raftLogger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l raftLogger) IsError() bool { return l.enabled(hclog.Error) }

func (l raftLogger) ImpliedArgs() []any             { return nil }
func (l raftLogger) With(args ...any) hclog.Logger  { return raftLogger{l.to.With(args...), l.repeats} }
func (l raftLogger) Name() string                   { return "raft" }
func (l raftLogger) Named(string) hclog.Logger      { return l }
func (l raftLogger) ResetNamed(string) hclog.Logger { return l }
func (l raftLogger) SetLevel(hclog.Level)           {}
func (l raftLogger) GetLevel() hclog.Level          { return hclog.Info }

func (l raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.to.Handler(), slog.LevelDebug)
}

func (l raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(nil).Writer()
}

// repeatEvery is the least interval between two lines with the same text. While a node is down, the leader of each
// shard logs every attempt to reach it, several per second: half a gigabyte a day for 16 shards.
const repeatEvery = 10 * time.Second

// repeats suppresses repeated lines with the same text, across all groups. The zero value is ready; it may be used
// concurrently. The texts are raft's, so there are few.
type repeats struct {
	mu   sync.Mutex
	said map[string]repeated
}

type repeated struct {
	at     time.Time
	unsaid int // lines suppressed since
}

// due reports whether a text is to be logged now, and how many of its lines were suppressed since the last logged one.
func (r *repeats) due(text string, now time.Time) (unsaid int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.said[text]
	if found && now.Sub(last.at) < repeatEvery {
		last.unsaid++
		r.said[text] = last
		return 0, false
	}
	if r.said == nil {
		r.said = make(map[string]repeated)
	}
	r.said[text] = repeated{at: now}
	return last.unsaid, true
}

// pebbleLogger passes Pebble's log lines to slog, and its fatal errors to the latch.
type pebbleLogger struct {
	to    *slog.Logger
	fault *diskFault
}

func (l pebbleLogger) Infof(format string, args ...any) {
	l.to.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.to.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf is called by Pebble when a commit or a manifest could not be written. It must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.fault.halt(writeFailed(fmt.Errorf(format, args...)))
}
