package decisions

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"
)

// Keys is how a log shows keys.
type Keys string

// The ways to show keys.
const (
	KeysHashed Keys = "hash"
	KeysPlain  Keys = "plain"
	KeysNone   Keys = "none"
)

// LogConfig configures a Log.
type LogConfig struct {
	// Out is the destination of the lines. File makes one that is rotated.
	Out Output
	// Keys is how keys are shown; "" means hashed.
	Keys Keys
	// Hide returns the hash that stands for a key; ok is false as long as the cluster's secret is not known: the line
	// then has neither key nor hash. Required for KeysHashed.
	Hide func(namespace, key string) (hash string, ok bool)
	// AllowedEvery logs one in so many allowed decisions; the line stands for all of them. 0 logs none, 1 all.
	AllowedEvery uint64
	// Dropped is called with the number of lost lines, and the reason: "full" (the disk is slower than the decisions)
	// or "disk" (it failed). May be nil.
	Dropped func(reason string, lines int)
	Logger  *slog.Logger
}

// Output takes whole lines. Reopen is called before the first Write, and before the next one after an error, but not at
// once.
type Output interface {
	Write(lines []byte) (int, error)
	Reopen() error
	Close() error
}

const (
	logRing    = 8192        // lines that wait for the goroutine
	linesMost  = 256         // written at once
	retryAfter = time.Second // between two attempts at an output that failed
)

// Log is the decision log of a node. It never delays a decision: lines that the disk does not take in time are dropped
// and counted.
type Log struct {
	config  LogConfig
	sampler *sampler
	queue   chan line     // never closed: a decision may come after Close
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the goroutine has ended
	closed  atomic.Bool   // Close was called

	// The goroutine owns the fields below.
	lines   []byte    // gathered, to be written at once; reused
	pending int       // lines in them
	failed  time.Time // when the output failed; zero if it works
}

type line struct {
	event  *Record // shared with readers
	weight uint64  // number of decisions that the line stands for
}

// NewLog makes a log and starts its writing goroutine. Close it.
func NewLog(config LogConfig) *Log {
	config.Keys = cmp.Or(config.Keys, KeysHashed)
	if config.Dropped == nil {
		config.Dropped = func(string, int) {}
	}
	l := &Log{config: config, sampler: newSampler(config.AllowedEvery), queue: make(chan line, logRing),
		closing: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// put hands a record to the goroutine. It never waits: without room the line is lost.
func (l *Log) put(e *Record, weight uint64) {
	select {
	case l.queue <- line{e, weight}:
	default:
		l.config.Dropped("full", 1)
	}
}

// Close writes the waiting lines and ends the log, within a time: a disk that hangs is abandoned. Decisions after Close
// are dropped. A nil Log has nothing to write.
func (l *Log) Close(within time.Duration) {
	if l == nil || l.closed.Swap(true) {
		return
	}
	close(l.closing)
	select {
	case <-l.ended:
	case <-time.After(within):
		l.config.Logger.Warn("the decision log did not end in time: its last lines may be missing",
			"lines", len(l.queue))
	}
}

// run is the goroutine of the log. It alone uses the output.
func (l *Log) run() {
	defer close(l.ended)
	if err := l.config.Out.Reopen(); err != nil {
		l.fail(err)
	}
	for {
		select {
		case next := <-l.queue:
			l.gather(next)
		case <-l.closing:
			for len(l.queue) > 0 {
				l.gather(<-l.queue)
			}
			if err := l.config.Out.Close(); err != nil && l.failed.IsZero() {
				l.config.Logger.Warn("closing the decision log", "error", err)
			}
			return
		}
	}
}

// gather writes a line and those that wait after it, at most linesMost together.
func (l *Log) gather(first line) {
	l.lines, l.pending = l.lines[:0], 0
	l.add(first)
	for l.pending < linesMost && len(l.queue) > 0 {
		l.add(<-l.queue)
	}
	l.write()
}

// add gathers a line. It hides the keys in a copy of the record.
func (l *Log) add(next line) {
	e := *next.event
	e.Weight = next.weight
	e.Entry = l.shown(e.Namespace, e.Entry)
	if len(e.Others) > 0 {
		others := make([]Entry, len(e.Others))
		for i := range others {
			others[i] = l.shown(e.Namespace, e.Others[i])
		}
		e.Others = others
	}
	text, err := json.Marshal(&e)
	if err != nil { // a time that JSON cannot write
		l.config.Dropped("disk", 1)
		return
	}
	l.lines = append(append(l.lines, text...), '\n')
	l.pending++
}

// shown returns an entry as the log shows its key.
func (l *Log) shown(namespace string, e Entry) Entry {
	switch l.config.Keys {
	case KeysPlain:
		return e
	case KeysHashed:
		e.KeyHash, _ = l.config.Hide(namespace, e.Key)
	}
	e.Key = ""
	return e
}

// write writes the gathered lines. It reports a failure once; lines are lost until the output works again.
func (l *Log) write() {
	if !l.failed.IsZero() {
		if time.Since(l.failed) < retryAfter {
			l.config.Dropped("disk", l.pending)
			return
		}
		if l.config.Out.Reopen() != nil {
			l.failed = time.Now()
			l.config.Dropped("disk", l.pending)
			return
		}
	}
	_, err := l.config.Out.Write(l.lines)
	switch {
	case err != nil:
		l.config.Dropped("disk", l.pending)
		l.fail(err)
	case !l.failed.IsZero():
		l.failed = time.Time{}
		l.config.Logger.Info("the decision log is written again")
	}
}

// fail records that the output does not work, and reports it the first time.
func (l *Log) fail(err error) {
	if l.failed.IsZero() {
		l.config.Logger.Error("the decision log cannot be written: its lines are lost until that works again; "+
			"decisions go on", "error", err)
	}
	l.failed = time.Now()
}
