package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
)

// logStore is one group's log in the Pebble database that all groups of the node share. A key consists of the group's
// prefix and the big-endian index. The methods return plain errors; guardedLog turns them into the latch (diskLatch).
//
// logStore implements raft.LogStore and may be used concurrently. Gaps are legal: after a snapshot is installed, the
// log continues at a higher index, and the entries below the gap are deleted later.
type logStore struct {
	db     *database
	prefix []byte

	mu          sync.Mutex
	first, last uint64 // of the entries stored; 0 when there are none
}

// openLogStore opens the group's log. prefix must have the same length as every other group's.
func openLogStore(db *database, prefix []byte) (*logStore, error) {
	s := &logStore{db: db, prefix: prefix}
	return s, s.findBounds()
}

func (s *logStore) key(index uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clip(s.prefix), index)
}

func (s *logStore) indexOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(s.prefix):]) }

// entries returns an iterator over the group's entries starting at index from.
func (s *logStore) entries(from uint64) (*pebble.Iterator, error) {
	// No index reaches MaxUint64, so the exclusive bound leaves out nothing.
	return s.db.NewIter(&pebble.IterOptions{LowerBound: s.key(from), UpperBound: s.key(^uint64(0))})
}

// findBounds takes the lock before it reads: a concurrent StoreLogs with entries that it does not see raises last
// afterwards.
func (s *logStore) findBounds() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, err := s.entries(0)
	if err != nil {
		return err
	}
	s.first, s.last = 0, 0
	if it.First() {
		s.first = s.indexOf(it.Key())
	}
	if it.Last() {
		s.last = s.indexOf(it.Key())
	}
	return it.Close()
}

// scan reads the entries in order starting at index from, and verifies each.
func (s *logStore) scan(from uint64, visit func(*raft.Log) error) error {
	it, err := s.entries(from)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var log raft.Log
		if err = decodeLog(slices.Clone(it.Value()), s.indexOf(it.Key()), &log); err == nil {
			err = visit(&log)
		}
	}
	return errors.Join(err, it.Close())
}

// FirstIndex implements raft.LogStore.
func (s *logStore) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, nil
}

// LastIndex implements raft.LogStore.
func (s *logStore) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, nil
}

// GetLog implements raft.LogStore. It returns raft.ErrLogNotFound unwrapped, because raft compares it by identity.
func (s *logStore) GetLog(index uint64, log *raft.Log) error {
	value, closer, err := s.db.Get(s.key(index))
	if err == pebble.ErrNotFound {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return fmt.Errorf("reading log entry %d: %w", index, err)
	}
	return errors.Join(decodeLog(slices.Clone(value), index, log), closer.Close())
}

// StoreLog implements raft.LogStore.
func (s *logStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. It writes one batch with one fsync, which Pebble shares among the groups that
// wait for it.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	synced, err := s.write(logs)
	if err != nil {
		return err
	}
	return synced()
}

// write makes entries visible to reads, and returns before they are fsynced. The caller calls synced once; it returns
// when these entries and all earlier writes are fsynced.
func (s *logStore) write(logs []*raft.Log) (synced func() error, err error) {
	batch := s.db.NewBatch()
	for _, log := range logs {
		if err := s.set(batch, log); err != nil {
			return nil, errors.Join(err, batch.Close())
		}
	}
	if err := s.db.begin(batch); err != nil {
		return nil, fmt.Errorf("storing %d log entries: %w", len(logs), err)
	}
	s.note(logs)
	return func() error {
		if err := batch.SyncWait(); err != nil {
			return fmt.Errorf("fsyncing %d log entries: %w", len(logs), err)
		}
		return batch.Close()
	}, nil
}

// note extends first and last to the new entries.
func (s *logStore) note(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range logs {
		if s.first == 0 || log.Index < s.first {
			s.first = log.Index
		}
		s.last = max(s.last, log.Index)
	}
}

// set encodes an entry directly into the batch, which saves a copy: entries can be as large as 256 KiB.
func (s *logStore) set(batch *pebble.Batch, log *raft.Log) error {
	op := batch.SetDeferred(len(s.prefix)+8, sizeOfLog(log))
	binary.BigEndian.PutUint64(op.Key[copy(op.Key, s.prefix):], log.Index)
	if got := len(appendLog(op.Value[:0], log)); got != len(op.Value) {
		return fmt.Errorf("log entry %d takes %d bytes, not %d", log.Index, got, len(op.Value))
	}
	return op.Finish()
}

// DeleteRange implements raft.LogStore. The range includes both ends. It costs one tombstone regardless of its length,
// so a long deletion delays nothing.
func (s *logStore) DeleteRange(first, last uint64) error {
	batch := s.db.NewBatch()
	write := func() error { return batch.DeleteRange(s.key(first), s.key(last+1), nil) }
	begin := func() error { return s.db.begin(batch) }
	for _, step := range []func() error{write, begin, batch.SyncWait, batch.Close} {
		if err := step(); err != nil {
			return fmt.Errorf("deleting log entries %d to %d: %w", first, last, err)
		}
	}
	return s.findBounds()
}
