package memfs

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stable implements raftfsm.StableFile on a disk in memory, in a file of its own. Each Set replaces the file and
// returns when the new one is fsynced: after a crash the file is either old or new, and complete. A Set fails while its
// disk fails, but is never slow and never hangs: its callers hold locks over it, and virtual time does not pass while a
// goroutine waits for a lock.
type stable struct {
	disk *Disk
	path string

	mu     sync.Mutex        // held over the write, too
	values map[string][]byte // as in the file; replaced, never changed
}

// OpenStable implements raftfsm.StableFS.
func (d *Disk) OpenStable(path string) (interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Close() error
}, error) {
	s := &stable{disk: d, path: path, values: make(map[string][]byte)}
	file, err := d.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.store(s.values)
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return s, json.Unmarshal(b, &s.values)
}

// Get implements raftfsm.StableFile.
func (s *stable) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[string(key)], nil
}

// Set implements raftfsm.StableFile.
func (s *stable) Set(key, value []byte) error {
	if err := s.disk.fails(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.values)
	next[string(key)] = append([]byte{}, value...)
	if err := s.store(next); err != nil {
		return err
	}
	s.values = next
	return nil
}

// Close implements raftfsm.StableFile.
func (s *stable) Close() error { return nil }

func (s *stable) store(values map[string][]byte) error {
	b, err := json.Marshal(values)
	if err != nil {
		return err
	}
	draft := s.path + ".draft"
	file, err := s.disk.FS.Create(draft, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil { //mutant:votes-not-fsynced
		return err
	}
	return Move(s.disk, draft, s.path)
}
