package raftfsm

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// raftLogger passes hashicorp/raft's log lines to slog at a lower level: raft's information is of interest to its
// developers, its warnings are normal during elections (a single node holds one at every start), and its errors mostly
// report peers that do not answer. The messages that an operator must act on come from this package. One warning keeps
// its level (quorumLost).
type raftLogger struct {
	hclog.Logger // the methods that raft does not call: they do nothing
	to           *slog.Logger
	repeats      *loglimit.Limit // of the node, by text; nil: every line is logged
}

func newRaftLogger(to *slog.Logger, repeats *loglimit.Limit) raftLogger {
	return raftLogger{hclog.NewNullLogger(), to, repeats}
}

// quorumLost is raft's text when a leader steps down because no majority has answered it for an election timeout. The
// shard then has another owner, or none, and nothing else says why.
const quorumLost = "failed to contact quorum of nodes, stepping down"

func levelOf(level hclog.Level, msg string) slog.Level {
	if level == hclog.Error || msg == quorumLost {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Log implements hclog.Logger.
func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	as := levelOf(level, msg)
	if !l.to.Enabled(context.Background(), as) {
		return
	}
	if l.repeats != nil && as >= slog.LevelWarn {
		unsaid, due := l.repeats.Allow(msg, time.Now())
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
	l.to.Log(context.Background(), as, "raft: "+msg, args...)
}

func (l raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// With implements hclog.Logger.
func (l raftLogger) With(args ...any) hclog.Logger {
	return newRaftLogger(l.to.With(args...), l.repeats)
}

// Named implements hclog.Logger.
func (l raftLogger) Named(string) hclog.Logger { return l }

// newRepeatLimit bounds raft's lines about one text, across all groups of a node. While a node is down, the leader of
// each shard logs every attempt to reach it, several per second: half a gigabyte a day for 16 shards.
func newRepeatLimit() *loglimit.Limit { return &loglimit.Limit{Most: 1, Per: 10 * time.Second} }

// pebbleLogger passes Pebble's log lines to slog, and its fatal errors to the latch.
type pebbleLogger struct {
	to    *slog.Logger
	fault *diskLatch
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

// pebbleSilence discards what Pebble says about its start.
type pebbleSilence struct{}

func (pebbleSilence) Infof(string, ...any) {}

func (pebbleSilence) Errorf(string, ...any) {}

func (pebbleSilence) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) // isolate makes it an error
}
