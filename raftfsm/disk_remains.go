package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/stint-io/stint/shard"
)

// Remains is the data directory of a node that does not run, opened only to be read: nothing in it is changed, not even
// repaired. Its methods must not be called concurrently.
type Remains struct {
	dir            string
	identityRecord identityRecord
	groups         []groupRecord
	suspicion      suspicion
	torn           string    // what the log has lost; "": nothing that is known
	lock           io.Closer // nil: the directory is a copy, or its disk takes no writes
	file           boltFile  // without latch and watchdog, which only a write needs
	db             *database
}

// Survivor is what is left of a replica.
type Survivor struct {
	Replica
	Name        string // Replica.Name
	Term, Index uint64 // of the newest entry, of the log or of the snapshot
	Newest      Voters // the newest configuration in the log or the snapshot
	// the one before, which counts as long as the newest may not be committed. Index 0: there is none
	Previous  Voters
	Convicted string // why its records are not to be used at all; "": they may be
	// why it may have forgotten the end of what it acknowledged; "": it has not, as far as is known
	Forgetful       string
	Unreadable      string // why there is no state; "": there is one
	SnapshotIndex   uint64 // 0: none
	SnapshotEntries uint64 // entries that were replayed after it; only some of them change the state
}

// Voters is a configuration of a group.
type Voters struct {
	Index uint64   // of its entry
	Names []string // of the replicas that vote
}

// OpenRemains opens a data directory for reading. It refuses one that a process uses, or of formats that it does not
// know. The error is about all that is in the directory; what is wrong with one replica is in its Survivor.
func OpenRemains(dir string) (*Remains, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &Remains{dir: dir}
	if err := isolate(r.open); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, corruption(err)), r.Close())
	}
	return r, nil
}

func (r *Remains) open() (err error) {
	d := newDisk(nil)
	path := filepath.Join(r.dir, boltName)
	if there, err := isThere(d.small, path); err != nil {
		return err
	} else if !there {
		return fmt.Errorf("has no %s: it is not the data of a node, or that is lost", boltName)
	}
	if r.lock, err = lockToRead(d.small, filepath.Join(r.dir, lockName)); err != nil {
		return err
	}
	if there, err := isThere(d.small, filepath.Join(r.dir, restoringName)); err != nil {
		return err
	} else if there {
		return errRestoring
	}
	if err := checkBolt(path); err != nil {
		return err
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: path,
		BoltOptions: &bbolt.Options{Timeout: time.Second, ReadOnly: true}})
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	r.file = boltFile{StableFile: bolt{store}}
	if err := r.file.getJSON(keyIdentity, &r.identityRecord); err != nil {
		return fmt.Errorf("reading its identity: %w", err)
	}
	if err := r.identityRecord.unknown(shard.LevelNewest); err != nil {
		return err
	}
	if r.identityRecord.Level == 0 {
		return errors.New("holds no replica: its creation did not end")
	}
	if err := r.file.getJSON(keyGroups, &r.groups); err != nil && err != errNotFound {
		return fmt.Errorf("reading the list of its groups: %w", err)
	}
	if err := r.suspicion.load(d, r.dir, r.groups); err != nil {
		return err
	}
	return r.openLog(d)
}

func (r *Remains) openLog(d disk) (err error) {
	path := filepath.Join(r.dir, logName)
	ends := tail{files: d, path: filepath.Join(r.dir, tailName), log: path}
	if r.torn, err = ends.check(); err != nil { // before Pebble leaves out what is torn
		return fmt.Errorf("looking for the end of the log: %w", err)
	}
	db, err := pebble.Open(path, &pebble.Options{FS: readOnlyFS{d.FS}, ReadOnly: true, Logger: pebbleSilence{},
		FormatMajorVersion: pebbleFormat})
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	r.db = newDatabase(db)
	return nil
}

// lockToRead keeps a node from starting on the directory. A directory without the lock's file was never that of a
// running node here: it is a copy. A disk that takes no writes has no running node either.
func lockToRead(files FS, path string) (io.Closer, error) {
	if there, err := isThere(files, path); !there {
		return nil, err
	}
	lock, err := files.Lock(path) //mutant:reads-the-disk-of-a-live-node
	if errors.Is(err, syscall.EROFS) {
		return nil, nil
	}
	if err != nil {
		return nil, lockError(err, "stop the node first")
	}
	return lock, nil
}

// Close releases the directory.
func (r *Remains) Close() error {
	var errs []error
	if r.db != nil {
		errs = append(errs, isolate(r.db.Close))
	}
	if r.file.StableFile != nil {
		errs = append(errs, r.file.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

// Identity says to which cluster and node the directory belongs.
func (r *Remains) Identity() Identity { return r.identityRecord.Identity }

// Level is the feature level of the directory.
func (r *Remains) Level() shard.Level { return r.identityRecord.Level }

// ReadRecord reads a record that Stores.PutRecord wrote.
func (r *Remains) ReadRecord(name string, into any) (found bool, err error) {
	err = isolate(func() error { return r.file.getJSON(recordPrefix+name, into) })
	if err == errNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("data directory %s: reading what was kept as %q: %w", r.dir, name, err)
	}
	return true, nil
}

// Replicas lists the replicas that were created here and not destroyed.
func (r *Remains) Replicas() []Replica { return living(r.groups) }

// Replay returns what is left of a replica, and its state with all entries of its log, also those that may not have
// been committed: if the replica's log is the newest of a majority, that is what its group would have done too. The
// state is nil if it cannot be read.
func (r *Remains) Replay(replica Replica) (Survivor, *shard.State) {
	s := Survivor{Replica: replica, Name: replica.Name(r.identityRecord.Node)}
	var state *shard.State
	err := isolate(func() (err error) { state, err = r.replay(&s); return err })
	if err != nil {
		s.Unreadable, state = corruption(err).Error(), nil
	}
	return s, state
}

func (r *Remains) replay(s *Survivor) (*shard.State, error) {
	var record groupRecord
	for _, g := range r.groups {
		if g.Replica == s.Replica {
			record = g
		}
	}
	if record.Convicted != nil { //mutant:conviction-not-read
		s.Convicted = record.Convicted.Why
	}
	s.Forgetful = r.torn //mutant:torn-log-is-whole
	if err := r.suspicion.refuse(s.Replica, false); err != nil && s.Forgetful == "" {
		s.Forgetful = err.Error()
	}
	log, err := openLogStore(r.db, s.logPrefix())
	if err != nil {
		return nil, err
	}
	d := newDisk(nil)
	snapshots := &snapshotStore{files: d, dir: filepath.Join(r.dir, snapshotsName, s.snapshotsDir(), snapshotsInner),
		turn: make(chan struct{}, 1)}
	var seen roster
	found, err := examine(log, &stableStore{file: r.file, prefix: s.stablePrefix()}, noneIfMissing{snapshots},
		record, &seen)
	if err != nil {
		return nil, err
	}
	s.describe(&found, &seen)
	state := shard.NewState(s.Shard)
	if found.snapshotIndex > 0 {
		if state, err = snapshots.newest(s.Shard); err != nil {
			return nil, err
		}
	}
	return state, log.scan(found.snapshotIndex+1, func(entry *raft.Log) error {
		s.SnapshotEntries++
		if entry.Type != raft.LogCommand {
			return nil
		}
		if _, err := state.Install(entry.Data, entry.Index, entry.Term); err != nil {
			return fmt.Errorf("installing entry %d: %w", entry.Index, err)
		}
		return nil
	})
}

// describe takes what examine found.
func (s *Survivor) describe(found *boot, seen *roster) {
	s.Term, s.Index, s.SnapshotIndex = found.snapshotTerm, found.snapshotIndex, found.snapshotIndex
	if found.lastIndex > 0 {
		s.Term, s.Index = found.lastTerm, found.lastIndex
	}
	for _, p := range seen.seen {
		s.Previous, s.Newest = s.Newest, Voters{Index: p.index, Names: votersIn(p.conf)}
	}
}

// noneIfMissing has no snapshots if there is no directory for them. Reading does not make one.
type noneIfMissing struct{ *snapshotStore }

func (s noneIfMissing) List() ([]*raft.SnapshotMeta, error) {
	found, err := s.snapshotStore.List()
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
		return nil, nil
	}
	return found, err
}
