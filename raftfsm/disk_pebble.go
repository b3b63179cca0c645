package raftfsm

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stint-io/stint/shard"
)

// memTableBytes is also the size to which a file of Pebble's write-ahead log grows. An fdatasync of a growing file
// costs a quarter more processor time than one of a file that is overwritten, and a journal commit where the file
// system has a journal. Pebble overwrites old files once it has a few full ones. Smaller files are full sooner.
const memTableBytes = 4 << 20

// memTableInMemory replaces memTableBytes on a disk in memory, which copies a whole file at each fsync.
const memTableInMemory = 256 << 10

// pebbleFormat is the format of Pebble's files. Pebble cannot go back from a format, so it is named here and not taken
// from the library: a newer Pebble must not change it before the cluster is allowed to leave the older release behind,
// at a feature level.
const pebbleFormat = pebble.FormatValueSeparation

// openLog opens the Pebble database. It must exist unless the directory's creation was interrupted: without it the
// replicas of this node would forget what they acknowledged.
func (s *Stores) openLog(cfg *StoresConfig) (err error) {
	path := s.disk.PathJoin(s.dir, logName)
	if s.identityRecord.Level == 0 {
		if err := s.createLog(path); err != nil {
			return err
		}
		s.identityRecord.Level, s.identityRecord.Release = cmp.Or(cfg.FreshLevel, shard.LevelFirst), cfg.Release
		if err := s.file.putJSON(keyIdentity, s.identityRecord); err != nil {
			return err
		}
	}
	if err := s.checkTail(); err != nil {
		return err
	}
	db, err := pebble.Open(path, s.pebbleOptions(true))
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("the log's database is gone: %w", ErrLost)
	}
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	s.db = newDatabase(db)
	return s.tail.begin()
}

// createLog creates the directory before Pebble would, so that no other user can read it, and closes the new database:
// Pebble writes the first log file of a new database in its oldest format.
func (s *Stores) createLog(path string) error {
	if err := errors.Join(s.disk.RemoveAll(path), makeDir(s.disk, path)); err != nil {
		return err
	}
	db, err := pebble.Open(path, s.pebbleOptions(false))
	if err != nil {
		return err
	}
	return db.Close()
}

// pebbleOptions tunes Pebble for a Raft log: written once, read rarely (the newest entries are in raft's cache), and
// deleted in long runs. The format (pebbleFormat) records in the write-ahead log how far it was synced, so that a
// flipped byte is an error and is not taken for the torn end of the file, unless it is in the file's last 32 KiB.
func (s *Stores) pebbleOptions(exists bool) *pebble.Options {
	return &pebble.Options{
		MaxOpenFiles:                s.tables,
		FS:                          newFaultyFS(s.disk.FS, s.fault, &s.tail),
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                s.memTable,
		MemTableStopWritesThreshold: 4,  // a write blocks only when 12 MiB wait to be flushed
		L0CompactionThreshold:       16, // 64 MiB: most of it is deleted by then
		L0StopWritesThreshold:       48,
		ErrorIfNotExists:            exists,
		Logger:                      pebbleLogger{s.logger, s.fault},
		EventListener: &pebble.EventListener{
			// A failed flush or compaction, which Pebble would only retry.
			BackgroundError: func(err error) { s.fault.fail(writeFailed(err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.fault.fail(fmt.Errorf("%s: %w", info, ErrCorrupt))
			},
		},
	}
}

// database holds the logs of all groups. Its writers take turns: Pebble lets one writer at a time switch the log file,
// under a mutex, and closing the old file waits for the disk. A simulation in virtual time can observe the wait for a
// turn.
type database struct {
	*pebble.DB
	turn chan struct{}
}

func newDatabase(db *pebble.DB) *database { return &database{db, make(chan struct{}, 1)} }

// begin writes a batch. The batch's SyncWait returns when it is on disk.
func (d *database) begin(batch *pebble.Batch) error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	return d.ApplyNoSyncWait(batch, pebble.Sync) //mutant:answers-before-fsync //mutant:answers-before-fsync-in-clusters
}
