package raftfsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// markTimeout bounds how long the node waits for the mark on a disk that is failing already.
const markTimeout = 200 * time.Millisecond

// writeError is a write or an fsync that failed.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

func writeFailed(err error) error { return writeError{err} }

// noRoom are the errors of writes that the disk never took: what it had is still as good as it was.
var noRoom = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}

// suspicious reports whether after an error the disk may hold less than what was acknowledged: after a failed write,
// because an fsync that failed may have dropped what was under way, and after wrong or unreadable bytes. A disk that
// hangs or is full has lost nothing.
func suspicious(err error) bool {
	for _, e := range noRoom {
		if errors.Is(err, e) {
			return false
		}
	}
	var failed writeError
	return errors.As(err, &failed) || errors.Is(err, ErrCorrupt) || errors.Is(err, syscall.EIO)
}

// suspicion is the mark of a data directory whose disk failed: the replicas that stood on it then may have forgotten
// what they acknowledged, so none of them may vote again unless it was the only voter. It is a small file beside the
// stores, because the stores are what failed. It may be used concurrently.
type suspicion struct {
	path string

	mu      sync.Mutex
	exist   []Replica // stand on the disk now; what a mark will name
	suspect []Replica // as in the file
}

// load reads the mark. One that cannot be understood names everything.
func (s *suspicion) load(dir string, groups []groupRecord) error {
	s.know(groups)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path = filepath.Join(dir, suspectName)
	b, err := os.ReadFile(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if json.Unmarshal(b, &s.suspect) != nil {
		s.suspect = slices.Clone(s.exist)
	}
	return nil
}

// know notes which replicas there are.
func (s *suspicion) know(groups []groupRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exist = nil
	for _, g := range groups {
		if !g.Destroyed {
			s.exist = append(s.exist, g.Replica)
		}
	}
}

// raise marks all replicas that there are, and waits a little for the disk to take it. A disk that does not leaves the
// node unmarked: then only the log that this process wrote tells what was wrong.
func (s *suspicion) raise() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.path != "" && len(s.exist) > 0 {
			s.write(s.exist) // nothing is left to be done about an error
		}
	}()
	timeout := time.NewTimer(markTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
	}
}

// clear takes a replica off the mark: it was destroyed, or as the only voter it goes on with what it has.
func (s *suspicion) clear(replica Replica) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.suspect, replica) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(s.suspect), func(r Replica) bool { return r == replica })
	if err := s.write(rest); err != nil {
		return fmt.Errorf("marking what is suspect: %w", err)
	}
	s.suspect = rest
	return nil
}

// write replaces the mark, and removes it when it would name nothing.
func (s *suspicion) write(replicas []Replica) error {
	if len(replicas) == 0 {
		return errors.Join(os.Remove(s.path), syncDir(filepath.Dir(s.path)))
	}
	b, err := json.Marshal(replicas)
	if err != nil {
		return err
	}
	draft := s.path + ".new"
	if err := writeSynced(draft, b); err != nil {
		return err
	}
	if err := os.Rename(draft, s.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.path))
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (s *suspicion) names(replica Replica) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.suspect, replica)
}

// Suspect reports that this directory's disk failed to write before it was opened, and that there still are replicas
// that stood on it then. OpenGroup refuses them with ErrLost in the chain, except as the only voter of their group. They
// are to be destroyed and replaced under new numbers; when none is left the suspicion ends.
func (s *Stores) Suspect() bool {
	s.suspicion.mu.Lock()
	defer s.suspicion.mu.Unlock()
	return len(s.suspicion.suspect) > 0
}
