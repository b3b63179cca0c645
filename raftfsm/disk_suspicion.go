package raftfsm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
)

// suspicious reports whether after an error the disk may hold less than was acknowledged. That is so after a failed
// write, because a failed fsync may have dropped the data under way, and after wrong or unreadable bytes. A disk that
// hangs or is full has lost nothing.
func suspicious(err error) bool {
	for _, e := range noRoomErrors {
		if errors.Is(err, e) {
			return false
		}
	}
	var failed writeError
	return errors.As(err, &failed) || errors.Is(err, ErrCorrupt) || errors.Is(err, syscall.EIO)
}

// suspicion is the mark of a data directory on a disk that failed. The replicas on it may have forgotten what they
// acknowledged, so none of them may vote again unless it was the only voter. The mark is a small file beside the
// stores, because the stores are what failed. suspicion may be used concurrently.
type suspicion struct {
	files FS
	path  string // "" until load: nothing is marked before

	mu      sync.Mutex
	exist   []Replica          // on the disk now; the next mark names these
	suspect []suspectedReplica // as in the file
}

// suspectedReplica is an entry of the mark. A version that does not know Torn ignores it.
type suspectedReplica struct {
	Replica
	Torn string `json:",omitempty"` // what its log has lost (tail)
}

// load reads the mark. A mark that cannot be parsed counts as naming every replica.
func (s *suspicion) load(files FS, dir string, groups []groupRecord) error {
	s.know(groups)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files, s.path = files, files.PathJoin(dir, suspectName)
	parsed, err := readMark(files, s.path, &s.suspect)
	if err == nil && !parsed {
		s.suspect = s.all("")
	}
	return err
}

// all returns the existing replicas, with what is already known about each. s.mu must be held.
func (s *suspicion) all(torn string) []suspectedReplica {
	named := make([]suspectedReplica, 0, len(s.exist))
	for _, r := range s.exist {
		known := suspectedReplica{r, torn}
		if i := s.find(r); i >= 0 && s.suspect[i].Torn != "" {
			known = s.suspect[i]
		}
		named = append(named, known)
	}
	return named
}

// find returns the position of a replica in the mark, or -1 if it is not suspect. s.mu must be held.
func (s *suspicion) find(replica Replica) int {
	return slices.IndexFunc(s.suspect, func(r suspectedReplica) bool { return r.Replica == replica })
}

// tear marks all existing replicas as having lost the end of their log.
func (s *suspicion) tear(torn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.exist) == 0 {
		return nil
	}
	named := s.all(torn)
	if err := s.write(named); err != nil {
		return fmt.Errorf("marking what is suspect: %w", err)
	}
	s.suspect = named
	return nil
}

// know notes which replicas exist.
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

// raise marks all existing replicas. If the disk does not take the mark, the node stays unmarked, and only this
// process's log lines tell what was wrong.
func (s *suspicion) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path != "" && len(s.exist) > 0 {
		s.write(s.all("")) // an error is ignored: nothing can be done about it
	}
}

// clear removes a replica from the mark: it was destroyed, or it is the only voter and continues with the data it has.
func (s *suspicion) clear(replica Replica) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(replica)
	if i < 0 {
		return nil
	}
	rest := slices.Delete(slices.Clone(s.suspect), i, i+1)
	if err := s.write(rest); err != nil {
		return fmt.Errorf("marking what is suspect: %w", err)
	}
	s.suspect = rest
	return nil
}

// write replaces the mark, and removes it when it would name no replica.
func (s *suspicion) write(replicas []suspectedReplica) error {
	if len(replicas) == 0 {
		return errors.Join(s.files.Remove(s.path), syncDir(s.files, s.files.PathDir(s.path)))
	}
	b, err := json.Marshal(replicas)
	if err != nil {
		return err
	}
	return writeWhole(s.files, s.path, b)
}

// refuse says why a replica must not be opened. After a disk failed, the only voter of a group may continue: entries
// that existed only in the cache were never acknowledged. If the log has lost its end, acknowledged requests are lost
// with it, and a person must decide.
func (s *suspicion) refuse(replica Replica, lone bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(replica)
	switch {
	case i < 0:
		return nil
	case s.suspect[i].Torn != "" && lone: //mutant:only-voter-goes-on-torn
		return fmt.Errorf("its log has lost its end, and no other replica has it (%s): delete %s to go on "+
			"with what is left, where counts may be too low: %w", s.suspect[i].Torn, s.path, ErrLost)
	case s.suspect[i].Torn != "":
		return fmt.Errorf("its log has lost its end (%s): %w", s.suspect[i].Torn, ErrLost)
	//mutant:failed-disk-trusted-again 2
	case !lone:
		return errSuspect
	}
	return nil
}

// Suspect reports that this directory's disk failed before it was opened, or that its log lost its end, and that
// replicas from then still exist. OpenGroup refuses them with ErrLost in the chain, except, after a failed disk, the
// only voter of a group. They must be destroyed and replaced under new numbers; when none is left, the suspicion ends.
func (s *Stores) Suspect() bool {
	s.suspicion.mu.Lock()
	defer s.suspicion.mu.Unlock()
	return len(s.suspicion.suspect) > 0
}
