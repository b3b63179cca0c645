package raftfsm

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// boot is the state that a replica finds on its disk.
type boot struct {
	snapshotIndex, snapshotTerm uint64             // of the newest snapshot; 0 if there is none
	lastIndex, lastTerm         uint64             // of the log after the snapshot; 0 when it is empty
	members                     raft.Configuration // the newest, committed or not; empty: the replica waits to be added
}

// examine reads everything that raft will read, before raft does: raft panics where examine returns an error. Every
// entry after the newest snapshot must be present and in its place. It must have its checksum and a term that the
// stable store has seen.
//
// It does not write the tail of the log again, although after a failed fsync those bytes may exist only in the page
// cache. To open its database, Pebble reads the write-ahead log, writes it into a new table and fsyncs that. A test
// verifies this.
func examine(log *logStore, stable *stableStore, snapshots raft.SnapshotStore, record groupRecord,
	roster *roster) (boot, error) {
	var b boot
	newest, err := snapshots.List()
	if err != nil {
		return boot{}, err
	}
	if len(newest) > 0 {
		b.snapshotIndex, b.snapshotTerm, b.members = newest[0].Index, newest[0].Term, newest[0].Configuration
		roster.snapshotted(newest[0].Index, newest[0].ConfigurationIndex, newest[0].Configuration)
	}
	next := b.snapshotIndex + 1
	err = log.scan(next, func(entry *raft.Log) error {
		if entry.Index != next || entry.Term < b.lastTerm {
			return fmt.Errorf("entry %d of term %d follows entry %d of term %d: %w", entry.Index, entry.Term, next-1,
				b.lastTerm, ErrLost)
		}
		if entry.Type == raft.LogConfiguration {
			b.members = raft.DecodeConfiguration(entry.Data)
			roster.written([]*raft.Log{entry})
		}
		next, b.lastIndex, b.lastTerm = next+1, entry.Index, entry.Term
		return nil
	})
	if err != nil {
		return boot{}, err
	}
	return b, b.check(stable, record)
}

// check compares the log with the term, which is in the other store, and with the record of the creation: each store
// may have lost what the others still know.
func (b *boot) check(stable *stableStore, record groupRecord) error {
	term, err := stable.currentTerm()
	if err != nil {
		return err
	}
	if newest := max(b.snapshotTerm, b.lastTerm); term < newest {
		return fmt.Errorf("its term is %d, but it has entries of term %d: %w", term, newest, ErrLost)
	}
	if len(record.Voters) > 0 && b.snapshotIndex == 0 && b.lastIndex == 0 { //mutant:replica-without-log-votes
		return fmt.Errorf("it was created, and there is neither a log nor a snapshot: %w", ErrLost)
	}
	return nil
}
