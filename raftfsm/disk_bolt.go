package raftfsm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// StableFile is the small file of terms, votes and identity; on a real disk it is bolt's. A value for which Set
// returned nil survives a power cut. Get returns nil for a key that was never set.
type StableFile = interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Close() error
}

// bolt is raft-boltdb's file as a StableFile.
type bolt struct{ *raftboltdb.BoltStore }

func (b bolt) Get(key []byte) ([]byte, error) {
	value, err := b.BoltStore.Get(key)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

// boltFile is the node's one small file for data that must be safe and is rarely written: its identity, the list of its
// groups, and the terms and votes of each. Every value ends with a crc32c over its key and itself: a replica must not
// vote from suspect data, and bbolt checks only its own meta pages.
//
// Nothing is written once the latch is set, because most records here say that something else was done, for example in
// Pebble.
type boltFile struct {
	StableFile
	fault    *diskLatch
	watchdog *watchdog
}

// put writes a value. A hang of it is noticed if its caller has registered the write with the watchdog.
func (f boltFile) put(key string, value []byte) error {
	if err := f.fault.cause(); err != nil { //mutant:record-of-what-pebble-did-not
		return err
	}
	sum := crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
	defer f.watchdog.lineMoved()
	return f.Set([]byte(key), binary.LittleEndian.AppendUint32(value[:len(value):len(value)], sum))
}

// get returns errNotFound, unwrapped, for a key that was never put.
func (f boltFile) get(key string) ([]byte, error) {
	sealed, err := f.Get([]byte(key))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	if sealed == nil {
		return nil, errNotFound
	}
	value, err := unseal(sealed, crc32.Checksum([]byte(key), castagnoli))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", key, err)
	}
	return value, nil
}

func (f boltFile) putJSON(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.put(key, b)
}

func (f boltFile) getJSON(key string, v any) error {
	b, err := f.get(key)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// errNotFound is the bolt store's error, not wrapped, because raft compares its text.
var errNotFound = raftboltdb.ErrKeyNotFound

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

// openBolt opens bolt's file at a path, after a check, and creates a missing one. bbolt keeps its list of free pages in
// memory alone, and reads the whole file for it at the start: the file is small, and each vote writes less.
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
