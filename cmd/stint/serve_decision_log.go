package main

import (
	"io"
	"os/signal"
	"syscall"

	"github.com/stint-io/stint/internal/observe/decisions"
)

// decisionLogFlags are the flags of serve for the log of decisions.
type decisionLogFlags struct {
	DecisionLog      string `help:"Log decisions as lines of JSON: stdout, or a file, which is rotated. Denials in full up to 1,000 a second for each policy. Default: no log." placeholder:"stdout|FILE" env:"STINT_DECISION_LOG"`
	DecisionLogKeys  string `hidden:"" help:"How the log shows keys: hash, plain or none." enum:"hash,plain,none" default:"hash" env:"STINT_DECISION_LOG_KEYS"`
	DecisionLogEvery uint64 `hidden:"" help:"One allowed decision in this many is logged, and its line has it as its weight. 0: none." default:"100" placeholder:"N" env:"STINT_DECISION_LOG_EVERY"`
}

const (
	logToStdout  = "stdout"
	logFileBytes = 64 << 20 // size from which another file is begun
	logFiles     = 5        // files kept: FILE, FILE.1 and so on
)

// config returns the configuration of the log, or nil if there is none. out is the standard output.
func (f *decisionLogFlags) config(out io.Writer) *decisions.LogConfig {
	log := &decisions.LogConfig{Keys: decisions.Keys(f.DecisionLogKeys), AllowedEvery: f.DecisionLogEvery}
	switch f.DecisionLog {
	case "":
		return nil
	case logToStdout:
		signal.Ignore(syscall.SIGPIPE) // the reader of the log may leave; that must not end the node
		log.Out = decisions.To(out)
	default:
		log.Out = decisions.File(decisions.FileConfig{Path: f.DecisionLog, Bytes: logFileBytes, Files: logFiles})
	}
	return log
}

// greeting returns the writer for the message that the node is ready: not the log's.
func (f *decisionLogFlags) greeting(s streams) io.Writer {
	if f.DecisionLog == logToStdout {
		return raw(s.err)
	}
	return raw(s.out)
}
