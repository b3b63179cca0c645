package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// What stands in a data directory.
const (
	lockName      = "LOCK"      // held by the one process that uses the directory
	boltName      = "stable.db" // identity, groups, terms and votes
	logName       = "log"       // the Pebble database with the logs of all groups
	snapshotsName = "snapshots" // a directory for each group
	keyIdentity   = "identity"  // in the bolt file
	keyGroups     = "groups"    // in the bolt file
	suspectName   = "suspect"   // there after a failed write: which replicas are not to be trusted
	dirMode       = os.FileMode(0o700)
)

// diskFloorBytes is the free space below which proposals are refused: enough for the log entries and the memtables
// that are still under way, and for a snapshot of a small shard.
const diskFloorBytes = 64 << 20

// memTableBytes is also the size that a file of Pebble's write-ahead log grows to. An fdatasync of a file that grows
// costs a quarter more processor time than one of a file that is overwritten, and a commit of the journal where the file
// system has one. Pebble overwrites old files when it has a few full ones: the smaller, the sooner.
const memTableBytes = 4 << 20

// FS is a file system as Pebble sees it.
type FS = vfs.FS

// StoresConfig is what OpenStores needs to know.
type StoresConfig struct {
	// Fresh is the identity that a directory without one is given.
	Fresh Identity
	// FreshKept are records (Stores.Keep) that such a directory holds from the moment on that it has its identity.
	FreshKept map[string]any
	// Node refuses a directory of another node. "" takes the one that is kept.
	Node string
	// Fatal is called once, by any goroutine, when the stores can no longer be trusted. It should end the process
	// (exit status 75) and must not wait for anything of this package. Required.
	Fatal func(error)
	// Logger must not block. nil discards.
	Logger *slog.Logger
	// FS holds the Pebble database; nil is the real disk. Terms, votes and snapshots are always on the real disk.
	FS FS
	// FreeBytes tells the space left for the data directory; nil asks FS. An error counts as room enough.
	FreeBytes func() (uint64, error)
}

// Identity says whose data directory this is. It never changes.
type Identity struct {
	Cluster string
	Node    string
	Shards  uint32 // of a node from before there were clusters; else the cluster's table says it
}

// identityRecord is Identity as it is kept.
type identityRecord struct {
	Identity
	Ready bool // false until the log's database was created: a crash before that starts over
}

// Stores is the disk of one node: the logs of all its groups in one Pebble database, and its identity, terms and votes
// in one bolt file. Safe for concurrent use. All groups must be shut down before Close.
type Stores struct {
	dir       string
	identity  Identity
	fs        FS
	logger    *slog.Logger
	repeats   repeats
	poison    *poison
	watchdog  *watchdog
	lock      io.Closer
	file      boltFile
	db        *pebble.DB
	suspicion suspicion
	lowDisk   atomic.Bool
	stop      chan struct{}
	watching  sync.WaitGroup

	snapshotting sync.Mutex // held by the group that writes a snapshot of its own accord

	mu     sync.Mutex
	groups []groupRecord    // as in the bolt file
	open   map[Replica]bool // groups in use
}

// Exists reports whether a data directory holds anything of a node; fs is StoresConfig.FS.
func Exists(dir string, fs FS) bool {
	if fs == nil {
		fs = vfs.Default
	}
	_, bolt := os.Stat(filepath.Join(dir, boltName))
	_, log := fs.Stat(fs.PathJoin(dir, logName))
	return bolt == nil || log == nil
}

// OpenStores opens a data directory, or makes it. It refuses a directory that another process uses, that belongs to
// another node, or that lost a part of itself.
func OpenStores(dir string, cfg StoresConfig) (*Stores, error) {
	dir, err := filepath.Abs(dir) // the lock is known by its name
	if err != nil {
		return nil, err
	}
	s := &Stores{dir: dir, fs: cfg.FS, logger: cfg.Logger, stop: make(chan struct{}), open: make(map[Replica]bool)}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.poison = &poison{logger: s.logger, fatal: cfg.Fatal, distrust: s.suspicion.raise}
	s.watchdog = newWatchdog(s.poison)
	if err := s.poison.contain(func() error { return s.start(&cfg) }); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), s.closeFiles())
	}
	s.watch(&cfg)
	return s, nil
}

func (s *Stores) start(cfg *StoresConfig) (err error) {
	if err := os.MkdirAll(s.dir, dirMode); err != nil {
		return err
	}
	if s.lock, err = vfs.Default.Lock(filepath.Join(s.dir, lockName)); err != nil {
		return fmt.Errorf("in use by another process (%w): each node needs a directory of its own", err)
	}
	if err := s.openBolt(cfg); err != nil {
		return err
	}
	var kept identityRecord
	if err := s.file.getJSON(keyIdentity, &kept); err != nil {
		return fmt.Errorf("reading its identity: %w", err)
	}
	if cfg.Node != "" && cfg.Node != kept.Node {
		return fmt.Errorf("belongs to node %q, not to %q: use that node's own directory, or a fresh one", kept.Node, cfg.Node)
	}
	s.identity = kept.Identity
	if err := s.file.getJSON(keyGroups, &s.groups); err != nil && err != errNotFound {
		return fmt.Errorf("reading the list of its groups: %w", err)
	}
	if err := s.suspicion.load(s.dir, s.groups); err != nil {
		return err
	}
	if s.Suspect() { // a write brings the newest root of the file, which may be in the cache only, to the disk
		if err := s.file.putJSON(keyIdentity, kept); err != nil {
			return err
		}
	}
	if err := s.openLog(&kept); err != nil {
		return err
	}
	return s.finishDestructions()
}

// openBolt opens the bolt file, or makes one with the fresh identity in it: under another name, moved into place when
// it is whole. A log without a bolt file has lost its terms and votes and must not be opened again.
func (s *Stores) openBolt(cfg *StoresConfig) error {
	path := filepath.Join(s.dir, boltName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, err := s.fs.Stat(s.fs.PathJoin(s.dir, logName)); err == nil {
			return fmt.Errorf("there is a log but no %s: %w", boltName, ErrLost)
		}
		if err := s.createBolt(path, cfg); err != nil {
			return err
		}
	}
	file, err := openBoltFile(path)
	s.file = file
	return err
}

func (s *Stores) createBolt(path string, cfg *StoresConfig) error {
	fresh := cfg.Fresh
	if fresh.Cluster == "" || fresh.Node == "" {
		return errors.New("is empty, and no identity was given for it")
	}
	draft := path + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	file, err := openBoltFile(draft)
	if err != nil {
		return err
	}
	err = file.putJSON(keyIdentity, identityRecord{Identity: fresh})
	for name, value := range cfg.FreshKept {
		err = errors.Join(err, file.putJSON(keepPrefix+name, value))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return errors.Join(syncDir(s.dir), syncDir(filepath.Dir(s.dir)))
}

func openBoltFile(path string) (boltFile, error) {
	store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
		Timeout:        time.Second, // it has a lock of its own
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}})
	if err != nil {
		return boltFile{}, fmt.Errorf("opening %s: %w", path, err)
	}
	return boltFile{store}, nil
}

// openLog opens the Pebble database. It must exist unless the directory's creation was interrupted: a database that
// went missing would make the replicas of this node forget what they acknowledged.
func (s *Stores) openLog(kept *identityRecord) (err error) {
	path := s.fs.PathJoin(s.dir, logName)
	if !kept.Ready {
		if err := s.createLog(path); err != nil {
			return err
		}
		kept.Ready = true
		if err := s.file.putJSON(keyIdentity, kept); err != nil {
			return err
		}
	}
	s.db, err = pebble.Open(path, s.pebbleOptions(true))
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("the log's database is gone: %w", ErrLost)
	}
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	return nil
}

// createLog makes the directory before Pebble would, readable by nobody else, and leaves the new database closed:
// Pebble writes the first log file of a new database in its oldest format.
func (s *Stores) createLog(path string) error {
	if err := errors.Join(s.fs.RemoveAll(path), s.fs.MkdirAll(path, dirMode)); err != nil {
		return err
	}
	parent, err := s.fs.OpenDir(s.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return err
	}
	db, err := pebble.Open(path, s.pebbleOptions(false))
	if err != nil {
		return err
	}
	return db.Close()
}

// pebbleOptions tunes Pebble for a Raft log: written once, read rarely (the newest entries are in raft's cache), and
// deleted in long runs. The newest format marks in the write-ahead log how far it was synced, so that a flipped byte is
// an error and not taken for the torn end of the file, unless it is in the file's last 32 KiB.
func (s *Stores) pebbleOptions(exists bool) *pebble.Options {
	return &pebble.Options{
		FS:                          failFS{s.fs, s.poison},
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,  // 12 MiB wait to be flushed before a write does
		L0CompactionThreshold:       16, // 64 MiB: most of it is deleted by then
		L0StopWritesThreshold:       48,
		ErrorIfNotExists:            exists,
		Logger:                      pebbleLogger{s.logger, s.poison},
		EventListener: &pebble.EventListener{
			// Of a flush or a compaction, which Pebble would only try again.
			BackgroundError: func(err error) { s.poison.fail(writeFailed(err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.poison.fail(fmt.Errorf("%s: %w", info, ErrCorrupt))
			},
		},
	}
}

// watch starts the goroutines that Close ends.
func (s *Stores) watch(cfg *StoresConfig) {
	free := cfg.FreeBytes
	if free == nil {
		free = s.freeBytes
	}
	s.watching.Go(func() { every(watchdogTick, s.stop, s.watchdog.tick) })
	// Asking a hung disk for its free space hangs too: not in the watchdog's goroutine.
	s.watching.Go(func() {
		every(time.Second, s.stop, func() {
			bytes, err := free()
			s.noteLowDisk(err == nil && bytes < diskFloorBytes)
		})
	})
}

// noteLowDisk tells the operator when writes begin to be refused, and when they are taken again.
func (s *Stores) noteLowDisk(low bool) {
	if s.lowDisk.Swap(low) == low {
		return
	}
	if low {
		s.logger.Error("disk nearly full: requests are refused until there is room", "dir", s.dir,
			"floor_mib", diskFloorBytes>>20)
	} else {
		s.logger.Info("there is room on the disk again: requests are taken", "dir", s.dir)
	}
}

func (s *Stores) freeBytes() (uint64, error) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	return usage.AvailBytes, err
}

// Identity is what the directory was given when it was made.
func (s *Stores) Identity() Identity { return s.identity }

// Groups lists the replicas that were created here and not destroyed, in the order of their creation.
func (s *Stores) Groups() []Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	var created []Replica
	for _, g := range s.groups {
		if g.Created && !g.Destroyed {
			created = append(created, g.Replica)
		}
	}
	return created
}

// LowDisk reports that the disk is nearly full, so that proposals are refused. Looked at once a second.
func (s *Stores) LowDisk() bool { return s.lowDisk.Load() }

// Close lets go of the directory. All groups must be shut down before.
func (s *Stores) Close() error {
	s.mu.Lock()
	inUse := len(s.open)
	s.mu.Unlock()
	if inUse > 0 {
		return fmt.Errorf("raftfsm: %d groups still use the stores: shut them down first", inUse)
	}
	close(s.stop)
	s.watching.Wait()
	return s.closeFiles()
}

// closeFiles closes what start opened. Pebble may fail in its own ways to close what it could not write.
func (s *Stores) closeFiles() error {
	var errs []error
	if s.db != nil {
		if err := isolate(s.db.Close); s.poison.cause() == nil {
			errs = append(errs, err)
		}
	}
	if s.file.BoltStore != nil {
		errs = append(errs, s.file.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// putGroups changes the list of groups, on disk first.
func (s *Stores) putGroups(change func([]groupRecord) []groupRecord) error {
	groups := change(slices.Clone(s.groups))
	s.suspicion.know(groups) // first: if this write fails, what it writes is suspect too
	if err := s.file.putJSON(keyGroups, groups); err != nil {
		return err
	}
	s.groups = groups
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
