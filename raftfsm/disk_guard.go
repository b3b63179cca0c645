package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// guard stands between hashicorp/raft and the stores of one group. It applies the latch (diskLatch) to every call and
// the watchdog to every write.
type guard struct {
	fault    *diskLatch
	watchdog *watchdog
	group    string      // the replica's name, for errors
	hung     atomic.Bool // a write is late: set and cleared by the watchdog, read by the transport
}

// write makes a write; inLine is for the small file.
func (g *guard) write(w pendingWrite, call func() error) {
	g.fault.do(func() error {
		defer g.watchdog.begin(g.own(w))()
		return g.failed(w.what, call())
	})
}

// own names the group of a write.
func (g *guard) own(w pendingWrite) pendingWrite {
	w.what, w.hung = g.group+": "+w.what, &g.hung
	return w
}

// begin starts a write that continues after call has returned. end waits for the rest; it may run on another goroutine.
func (g *guard) begin(what string, call func() (rest func() error, err error)) (end func()) {
	var rest func() error
	var over func()
	g.fault.do(func() (err error) {
		over = g.watchdog.begin(g.own(pendingWrite{what: what}))
		defer func() {
			if rest == nil {
				over()
			}
		}()
		rest, err = call()
		return g.failed(what, err)
	})
	return func() {
		defer over()
		if err := g.failed(what, rest()); err != nil {
			g.fault.fail(err)
		}
	}
}

func (g *guard) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return writeFailed(fmt.Errorf("%s: %s: %w", g.group, what, err))
}

// read passes the one expected error through unwrapped; any other error sets the latch.
func (g *guard) read(expected error, call func() error) (result error) {
	g.fault.do(func() error {
		err := call()
		if err == expected {
			result = err
			return nil
		}
		if err != nil {
			return corruption(fmt.Errorf("%s: %w", g.group, err))
		}
		return nil
	})
	return result
}

// guardedLog is the raft.LogStore that raft is given (behind a recentLog).
type guardedLog struct {
	*logStore
	guard    *guard
	roster   *roster
	unsynced *unsyncedWrites
	leads    func() bool // called by raft's main goroutine; nil: this replica never leads
	// called when entries are fsynced, on a leader by a goroutine for each write; may be nil
	appended func(took time.Duration, entries int)
}

// GetLog implements raft.LogStore.
func (l *guardedLog) GetLog(index uint64, log *raft.Log) error {
	return l.guard.read(raft.ErrLogNotFound, func() error { return l.logStore.GetLog(index, log) })
}

// StoreLog implements raft.LogStore.
func (l *guardedLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (l *guardedLog) StoreLogs(logs []*raft.Log) error {
	start := time.Now()
	end := l.guard.begin("storing log entries", func() (func() error, error) { return l.logStore.write(logs) })
	finish := func() {
		end()
		if l.appended != nil {
			l.appended(time.Since(start), len(logs))
		}
	}
	if l.mayReturn(logs) {
		l.unsynced.begin(logs[0].Index, finish)
	} else {
		finish()
		l.guard.fault.check()
	}
	l.roster.written(logs)
	return nil
}

// mayReturn reports whether these entries may be replicated before they are fsynced here (unsyncedWrites).
func (l *guardedLog) mayReturn(logs []*raft.Log) bool {
	//mutant:configuration-ahead-of-the-disk //mutant:only-voter-ahead-of-its-disk
	return l.leads != nil && l.leads() && !configures(logs) && !isOnlyVoter(l.guard.group, l.roster.latest().conf)
}

// DeleteRange implements raft.LogStore. raft deletes either the end of the log, which other entries will replace, or
// its beginning, which a snapshot holds.
func (l *guardedLog) DeleteRange(first, last uint64) error {
	if newest, _ := l.LastIndex(); last >= newest {
		l.roster.cutOff(first) //mutant:members-of-a-cut-log
	}
	l.guard.write(pendingWrite{what: "deleting log entries"}, func() error { return l.logStore.DeleteRange(first, last) })
	return nil
}

// guardedStable is the raft.StableStore that raft is given. A term or a vote is written only when no entry of this
// replica is still on its way to the disk (unsyncedWrites).
type guardedStable struct {
	store    *stableStore
	guard    *guard
	unsynced *unsyncedWrites
}

// Set implements raft.StableStore.
func (s *guardedStable) Set(key, value []byte) error {
	s.unsynced.settle() //mutant:vote-overtakes-the-log
	s.guard.write(pendingWrite{what: "storing a vote", inLine: true}, func() error { return s.store.Set(key, value) })
	return nil
}

// SetUint64 implements raft.StableStore.
func (s *guardedStable) SetUint64(key []byte, value uint64) error {
	s.unsynced.settle() //mutant:term-overtakes-the-log
	s.guard.write(pendingWrite{what: "storing a term", inLine: true}, func() error { return s.store.SetUint64(key, value) })
	return nil
}

// Get implements raft.StableStore.
func (s *guardedStable) Get(key []byte) (value []byte, err error) {
	err = s.guard.read(errNotFound, func() (err error) { value, err = s.store.Get(key); return err })
	return value, err
}

// GetUint64 implements raft.StableStore.
func (s *guardedStable) GetUint64(key []byte) (value uint64, err error) {
	err = s.guard.read(errNotFound, func() (err error) { value, err = s.store.GetUint64(key); return err })
	return value, err
}

// guardedSnapshots is the raft.SnapshotStore that raft is given. raft falls back to an older snapshot when the newest
// cannot be read. The log below the newest snapshot may be gone by then, so an unreadable snapshot sets the latch.
type guardedSnapshots struct {
	*snapshotStore
	guard  *guard
	roster *roster
	hurry  func() bool // reports that snapshots no longer need pacing
}

// Open implements raft.SnapshotStore.
func (s *guardedSnapshots) Open(id string) (meta *raft.SnapshotMeta, from io.ReadCloser, err error) {
	err = s.guard.read(nil, func() (err error) {
		if meta, from, err = s.snapshotStore.Open(id); err != nil {
			err = fmt.Errorf("opening snapshot %s: %w", id, err)
		}
		return err
	})
	return meta, from, err
}

// Create implements raft.SnapshotStore.
func (s *guardedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, voters raft.Configuration,
	votersIndex uint64, transport raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.snapshotStore.Create(version, index, term, voters, votersIndex, transport)
	if err != nil {
		return nil, s.guard.snapshotFailed(err)
	}
	pacer := newPacer(sink.(*snapshotSink).file, s.hurry)
	return &guardedSink{sink, s.guard, pacer, func() { s.roster.snapshotted(index, votersIndex, voters) }}, nil
}

// guardedSink sets the latch when a snapshot cannot be written or fsynced.
type guardedSink struct {
	raft.SnapshotSink
	guard   *guard
	pacer   *pacer
	written func() // called when the snapshot is on disk, perhaps more than once
}

// Write implements raft.SnapshotSink.
func (s *guardedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	if err == nil {
		err = s.pacer.wrote(n)
	}
	return n, s.guard.snapshotFailed(err)
}

// Close implements raft.SnapshotSink.
func (s *guardedSink) Close() error {
	err := s.guard.snapshotFailed(s.SnapshotSink.Close())
	if err == nil {
		s.written()
	}
	return err
}

// snapshotFailed tolerates a full disk: the failed snapshot acknowledged nothing, the log is still complete, and raft
// tries again later. Every other error makes the disk suspect.
func (g *guard) snapshotFailed(err error) error {
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		g.fault.halt(writeFailed(fmt.Errorf("%s: writing a snapshot: %w", g.group, err)))
	}
	return err
}
