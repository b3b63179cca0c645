package raftfsm

import (
	"encoding/json"
	"sync"
	"time"
)

// Distrust says why a process ended itself: the disk of its data directory could not be trusted.
type Distrust struct {
	Why string    // the reason, for people
	At  time.Time // when it ended
}

// distrustMark is the file in which a process that ends leaves its Distrust for those after it, so that they can tell:
// a supervisor starts the next one within seconds, and the exit status of the first is easily missed. Nothing is
// decided by it, which is what suspicion is for, and nothing removes it; the next one overwrites it. distrustMark may
// be used concurrently.
type distrustMark struct {
	mu    sync.Mutex
	files FS
	path  string   // "" until the directory is known to be this process's
	last  Distrust // as it was in the file; zero: there was none
	left  bool     // this process has left its own
}

// load reads the file. One that cannot be parsed tells nothing.
func (m *distrustMark) load(files FS, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files, m.path = files, files.PathJoin(dir, distrustName)
	parsed, err := readMark(files, m.path, &m.last)
	if !parsed {
		m.last = Distrust{}
	}
	return err
}

// leave writes the file, unless this process has done it. An error is ignored: nothing can be done about it.
func (m *distrustMark) leave(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path == "" || m.left {
		return
	}
	m.left = true
	if b, err := json.Marshal(Distrust{Why: why.Error(), At: time.Now()}); err == nil {
		writeWhole(m.files, m.path, b)
	}
}

// LastDistrust returns why the last process that ended for that reason had to, if one did since this directory was
// made. It does not change while the stores are open.
func (s *Stores) LastDistrust() (d Distrust, ok bool) {
	s.distrust.mu.Lock()
	defer s.distrust.mu.Unlock()
	return s.distrust.last, !s.distrust.last.At.IsZero()
}

// Distrust notes in the directory that this process is about to end, for a reason that the stores have not seen:
// LastDistrust of the next one returns it. It waits no longer than 200 ms for the disk. For what StoresConfig.Fatal is
// told this is done already.
func (s *Stores) Distrust(why error) { briefly(func() { s.distrust.leave(why) }) }
