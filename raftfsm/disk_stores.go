package raftfsm

import (
	"cmp"
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

	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/shard"
)

// Names in a data directory.
const (
	lockName      = "LOCK"      // held by the one process that uses the directory
	boltName      = "stable.db" // identity, groups, terms and votes
	logName       = "log"       // the Pebble database with the logs of all groups
	snapshotsName = "snapshots" // a directory for each group
	keyIdentity   = "identity"  // in the bolt file
	keyGroups     = "groups"    // in the bolt file
	tailName      = "log-tail"  // how far the newest log file was fsynced
	suspectName   = "suspect"   // exists after a failed write: the replicas that are not to be trusted
	distrustName  = "distrust"  // why a process had to end itself, for those after it
	dirMode       = os.FileMode(0o700)
)

// diskFloorBytes is the free space below which proposals are refused. It is enough for the log entries and memtables
// still under way, and for a snapshot of a small shard.
const diskFloorBytes = 64 << 20

// memTableBytes is also the size to which a file of Pebble's write-ahead log grows. An fdatasync of a growing file
// costs a quarter more processor time than one of a file that is overwritten, and a journal commit where the file
// system has a journal. Pebble overwrites old files once it has a few full ones. Smaller files are full sooner.
const memTableBytes = 4 << 20

// memTableInMemory replaces memTableBytes on a disk in memory, which copies a whole file at each fsync.
const memTableInMemory = 256 << 10

// StoresConfig configures OpenStores.
type StoresConfig struct {
	// Fresh is the identity given to a directory that has none.
	Fresh Identity
	// FreshRecords are records (Stores.Keep) that such a directory gets together with its identity.
	FreshRecords map[string]any
	// FreshLevel is the feature level that such a directory gets; 0: shard.LevelFirst.
	FreshLevel shard.Level
	// Newest is the newest level that this binary knows; a directory with a newer one is refused. 0: shard.LevelNewest.
	Newest shard.Level
	// Release is this binary's release. An older binary names it when it refuses the directory.
	Release string
	// Node is the expected node: a directory of another node is refused. "" accepts the directory's own.
	Node string
	// Fatal is called once, by any goroutine, when the stores can no longer be trusted. It should end the process (exit
	// status 75) and must not wait for anything in this package. Required.
	Fatal func(error)
	// Logger must not block. nil discards all lines.
	Logger *slog.Logger
	// FS holds the Pebble database, snapshots and marks; nil is the real disk. Identity, terms, votes and the lock are
	// always on the real disk, unless FS is a StableFS.
	FS FS
	// Tables is the approximate number of the log's files that are kept open; 0: Pebble's default.
	Tables int

	memTable uint64    // for tests: replaces memTableBytes
	fatal    int       // for tests on the machine's disk, which may stand still for seconds: replaces fatalTicks
	filling  io.Closer // the lock of a directory that RestoreStores fills
}

// Identity says to which cluster and node a data directory belongs. It never changes.
type Identity struct {
	Cluster string
	Node    string
}

// Stores is the disk of one node: the logs of all its groups in one Pebble database, and its identity, terms and votes
// in one bolt file. Safe for concurrent use. All groups must be shut down before Close.
type Stores struct {
	dir       string
	identity  Identity
	disk      disk
	memTable  uint64
	logger    *slog.Logger
	repeats   *loglimit.Limit
	fault     *diskFault
	watchdog  *watchdog
	lock      io.Closer
	file      boltFile
	db        *database
	tables    int // maximum that Pebble keeps open
	suspicion suspicion
	distrust  distrustMark
	tail      tail
	lowDisk   atomic.Bool
	free      atomic.Uint64 // bytes for the directory, asked once a second
	stop      chan struct{}
	watching  sync.WaitGroup

	snapshotting sync.Mutex // held by a group while it writes a snapshot that was due

	mu     sync.Mutex
	about  identityRecord   // as in the bolt file
	groups []groupRecord    // as in the bolt file
	open   map[Replica]bool // replicas in use
}

// Exists reports whether a data directory holds data of a node. It returns true if that cannot be determined. fs is
// StoresConfig.FS.
func Exists(dir string, fs FS) bool {
	d := newDisk(fs)
	file, fileErr := isThere(d.small, d.PathJoin(dir, boltName))
	log, logErr := isThere(d, d.PathJoin(dir, logName))
	restoring, restoringErr := isThere(d.small, d.PathJoin(dir, restoringName))
	//mutant:broken-restore-looks-empty
	return file || log || restoring || errors.Join(fileErr, logErr, restoringErr) != nil
}

// OpenStores opens a data directory, and creates it if it does not exist. It refuses a directory that another process
// uses, that belongs to another node, that has a newer feature level or was written before the first release, or that
// lost part of its data (ErrLost in the chain).
func OpenStores(dir string, cfg StoresConfig) (*Stores, error) {
	dir, err := filepath.Abs(dir) // the lock is known by its name
	if err != nil {
		return nil, err
	}
	if cfg.memTable == 0 && cfg.FS != nil {
		cfg.memTable = memTableInMemory
	}
	s := &Stores{
		dir:      dir,
		disk:     newDisk(cfg.FS),
		memTable: cmp.Or(cfg.memTable, memTableBytes),
		logger:   cfg.Logger,
		tables:   cfg.Tables,
		repeats:  newRepeats(),
		stop:     make(chan struct{}),
		open:     make(map[Replica]bool),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.tail = tail{files: s.disk, path: s.disk.PathJoin(dir, tailName), log: s.disk.PathJoin(dir, logName)}
	s.fault = &diskFault{logger: s.logger, fatal: cfg.Fatal, distrust: s.leaveMarks}
	s.watchdog = newWatchdog(s.fault, cmp.Or(cfg.fatal, fatalTicks))
	if err := s.fault.contain(func() error { return s.start(&cfg) }); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), s.closeFiles())
	}
	s.watch()
	return s, nil
}

func (s *Stores) start(cfg *StoresConfig) (err error) {
	if err := makeDirs(s.disk.small, s.dir); err != nil {
		return err
	}
	if s.disk.small == vfs.Default {
		if err := errors.Join(closeToOthers(s.dir, s.logger), noLinks(s.dir)); err != nil {
			return err
		}
	}
	if s.lock = cfg.filling; s.lock == nil {
		if s.lock, err = s.disk.small.Lock(filepath.Join(s.dir, lockName)); err != nil {
			return lockError(err, "each node needs a directory of its own")
		}
	}
	if err := s.refuseRestoring(cfg.filling); err != nil {
		return err
	}
	if err := s.openBolt(cfg); err != nil {
		return err
	}
	if err := s.file.getJSON(keyIdentity, &s.about); err != nil {
		return fmt.Errorf("reading its identity: %w", err)
	}
	kept := &s.about
	if cfg.Node != "" && cfg.Node != kept.Node {
		return fmt.Errorf("belongs to node %q, not to %q: use that node's own directory, or a fresh one",
			kept.Node, cfg.Node)
	}
	if err := kept.unknown(cmp.Or(cfg.Newest, shard.LevelNewest)); err != nil {
		return err
	}
	s.identity = kept.Identity
	if err := s.file.getJSON(keyGroups, &s.groups); err != nil && err != errNotFound {
		return fmt.Errorf("reading the list of its groups: %w", err)
	}
	if err := s.suspicion.load(s.disk, s.dir, s.groups); err != nil {
		return err
	}
	if err := s.distrust.load(s.disk, s.dir); err != nil {
		return err
	}
	if s.Suspect() { // a write forces the newest root of the file, which may exist only in the cache, to the disk
		if err := s.file.putJSON(keyIdentity, kept); err != nil {
			return err
		}
	}
	if err := s.openLog(cfg); err != nil {
		return err
	}
	return s.finishDestructions()
}

// openBolt opens the bolt file. If there is none, it creates one with the fresh identity under another name and moves
// the complete file into place. A directory with a log but without a bolt file has lost its terms and votes and must
// not be opened again.
func (s *Stores) openBolt(cfg *StoresConfig) error {
	path := filepath.Join(s.dir, boltName)
	there, err := isThere(s.disk.small, path)
	if err != nil {
		return err
	}
	if !there {
		log, err := isThere(s.disk, s.disk.PathJoin(s.dir, logName))
		if err != nil {
			return err
		}
		if log {
			return fmt.Errorf("there is a log but no %s: %w", boltName, ErrLost)
		}
		if err := s.createBolt(path, cfg); err != nil {
			return err
		}
	}
	file, err := s.disk.open(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	s.file = boltFile{file, s.fault, s.watchdog}
	return nil
}

func (s *Stores) createBolt(path string, cfg *StoresConfig) error {
	fresh := cfg.Fresh
	if fresh.Cluster == "" || fresh.Node == "" {
		return errors.New("is empty, and no identity was given for it")
	}
	draft := path + draftSuffix
	if err := s.disk.small.RemoveAll(draft); err != nil {
		return err
	}
	made, err := s.disk.open(draft)
	if err != nil {
		return fmt.Errorf("making %s: %w", draft, err)
	}
	file := boltFile{made, s.fault, s.watchdog}
	err = file.putJSON(keyIdentity, identityRecord{Identity: fresh, Format: directoryFormat})
	for name, value := range cfg.FreshRecords {
		err = errors.Join(err, file.putJSON(recordPrefix+name, value))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := s.disk.small.Rename(draft, path); err != nil {
		return err
	}
	return errors.Join(syncDir(s.disk.small, s.dir), syncDir(s.disk.small, filepath.Dir(s.dir)))
}

func openBolt(path string) (StableFile, error) {
	if err := checkBolt(path); err != nil { //mutant:bolt-opens-a-damaged-file
		return nil, err
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{ //mutant:bolt-never-fsynced
		Timeout:        time.Second, // bbolt takes a lock of its own
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}})
	if err != nil {
		return nil, err
	}
	return bolt{store}, nil
}

// openLog opens the Pebble database. It must exist unless the directory's creation was interrupted: without it the
// replicas of this node would forget what they acknowledged.
func (s *Stores) openLog(cfg *StoresConfig) (err error) {
	path := s.disk.PathJoin(s.dir, logName)
	if s.about.Level == 0 {
		if err := s.createLog(path); err != nil {
			return err
		}
		s.about.Level, s.about.Release = cmp.Or(cfg.FreshLevel, shard.LevelFirst), cfg.Release
		if err := s.file.putJSON(keyIdentity, s.about); err != nil {
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

// checkTail marks the replicas as suspect if the log lost fsynced bytes. It runs before Pebble repairs the log.
func (s *Stores) checkTail() error {
	torn, err := s.tail.check()
	if err != nil {
		return fmt.Errorf("looking for the end of the log: %w", err)
	}
	if torn == "" { //mutant:torn-log-is-a-crash
		return nil
	}
	s.logger.Error("the end of the log is lost, and acknowledged requests with it: its replicas are to be replaced",
		"dir", s.dir, "found", torn)
	return s.suspicion.tear(torn)
}

// keepTail updates the mark of the log's end.
func (s *Stores) keepTail() {
	if s.fault.cause() != nil {
		return
	}
	var nobody atomic.Bool
	defer s.watchdog.begin(write{what: "marking how far the log is fsynced", hung: &nobody})()
	if err := s.tail.keep(); err != nil {
		s.fault.fail(writeFailed(fmt.Errorf("marking how far the log is fsynced: %w", err)))
	}
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

// watch starts the goroutines that Close ends.
func (s *Stores) watch() {
	s.watching.Go(func() { every(watchdogTick, s.stop, s.watchdog.tick) })
	s.watching.Go(func() { every(tailEvery, s.stop, s.keepTail) })
	// Asking a hung disk for its free space hangs too, so this does not run in the watchdog's goroutine.
	s.watching.Go(func() {
		every(time.Second, s.stop, func() {
			usage, err := s.disk.GetDiskUsage(s.dir)
			if err == nil {
				s.free.Store(usage.AvailBytes)
			}
			s.noteLowDisk(err == nil && usage.AvailBytes < diskFloorBytes)
		})
	})
}

// noteLowDisk tells the operator when proposals begin to be refused, and when they are accepted again.
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

// Identity returns the identity that the directory was given when it was created.
func (s *Stores) Identity() Identity { return s.identity }

// Groups lists the replicas that were created here and not destroyed, in the order of their creation.
func (s *Stores) Groups() []Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return living(s.groups)
}

// LowDisk reports that the disk is nearly full and proposals are refused. It is updated once a second.
func (s *Stores) LowDisk() bool { return s.lowDisk.Load() }

// FreeBytes returns the free space for the data directory as it was within the last second; 0: it is not known yet.
func (s *Stores) FreeBytes() uint64 { return s.free.Load() }

// Close releases the directory. All groups must be shut down first; otherwise it returns an error.
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

// closeFiles closes what start opened. Once the latch is set, Pebble's error is ignored: Close may fail in its own ways
// then.
func (s *Stores) closeFiles() error {
	var errs []error
	if s.db != nil {
		if err := isolate(s.db.Close); s.fault.cause() == nil {
			s.keepTail() // exact: nothing more is written
			errs = append(errs, err)
		}
		errs = append(errs, s.tail.close())
	}
	if s.file.StableFile != nil {
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
	s.suspicion.know(groups) // first: if this write fails, the replicas that it names are suspect too
	if err := s.file.putJSON(keyGroups, groups); err != nil {
		return err
	}
	s.groups = groups
	return nil
}

// openSnapshots opens the snapshots of a replica.
func (s *Stores) openSnapshots(replica Replica) (*snapshotStore, error) {
	above := s.disk.PathJoin(s.dir, snapshotsName)
	if err := makeDir(s.disk, above); err != nil {
		return nil, err
	}
	return openSnapshots(s.disk, s.disk.PathJoin(above, replica.snapshotsDir()))
}
