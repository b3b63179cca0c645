package raftfsm

import (
	"encoding/json"
	"errors"
	"os"
	"time"
)

// markTimeout bounds how long the node waits for its marks to be written to a disk that is failing already.
const markTimeout = 200 * time.Millisecond

// readMark reads a mark, which is JSON, into v. A mark that does not exist leaves v as it is.
func readMark(files FS, path string, v any) (parsed bool, err error) {
	b, err := readFile(files, path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return err == nil && json.Unmarshal(b, v) == nil, err
}

// leaveMarks tells the next process what the stores have seen of their disk.
func (s *Stores) leaveMarks(err error) {
	briefly(func() {
		if suspicious(err) {
			s.suspicion.raise()
		}
		s.distrust.leave(err) //mutant:failed-disk-leaves-no-word
	})
}

// briefly waits for what is written to a disk that may hang, but not for long.
func briefly(write func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		write()
	}()
	select {
	case <-done:
	case <-time.After(markTimeout):
	}
}
