package raftfsm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

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

// Stores is the disk of one node: the logs of all its groups in one Pebble database, and its identity, terms and votes
// in one bolt file. Safe for concurrent use. All groups must be shut down before Close.
type Stores struct {
	dir       string
	identity  Identity // that of identityRecord, which never changes and needs no mu
	disk      disk
	memTable  uint64 // StoresConfig.memTable, or the default
	logger    *slog.Logger
	repeats   *loglimit.Limit // of the lines of all groups' raft
	fault     *diskLatch
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
	stop      chan struct{} // closed by Close: ends the goroutines of watching
	watching  sync.WaitGroup

	snapshotting sync.Mutex // held by a group while it writes a snapshot that was due

	mu             sync.Mutex
	identityRecord identityRecord   // as in the bolt file
	groups         []groupRecord    // as in the bolt file
	open           map[Replica]bool // replicas that run, or are being created or destroyed
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
		repeats:  newRepeatLimit(),
		stop:     make(chan struct{}),
		open:     make(map[Replica]bool),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.tail = tail{files: s.disk, path: s.disk.PathJoin(dir, tailName), log: s.disk.PathJoin(dir, logName)}
	s.fault = &diskLatch{logger: s.logger, fatal: cfg.Fatal, distrust: s.leaveMarks}
	s.watchdog = newWatchdog(s.fault, cmp.Or(cfg.fatal, fatalTicks))
	if err := s.fault.contain(func() error { return s.start(&cfg) }); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), s.closeFiles())
	}
	s.watch()
	return s, nil
}

// start opens the directory: the lock first, then the bolt file, which says what there must be, and the log last.
// Opening changes the log, so the marks of a bad disk are read before. After an error closeFiles closes what is open.
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
	if err := s.file.getJSON(keyIdentity, &s.identityRecord); err != nil {
		return fmt.Errorf("reading its identity: %w", err)
	}
	kept := &s.identityRecord
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

// openSnapshots opens the snapshots of a replica.
func (s *Stores) openSnapshots(replica Replica) (*snapshotStore, error) {
	above := s.disk.PathJoin(s.dir, snapshotsName)
	if err := makeDir(s.disk, above); err != nil {
		return nil, err
	}
	return openSnapshots(s.disk, s.disk.PathJoin(above, replica.snapshotsDir()))
}
