package raftfsm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Wherever Pebble cannot read the end of its newest log file, it takes it as torn by a crash. If instead the disk lost
// or changed fsynced bytes there, acknowledged entries are gone unnoticed, and the replica would vote with a shorter
// memory. So the file tailName records up to where, at least, a named log file was fsynced, and the checksum of all its
// bytes up to there. It is written twice a second while there is news (beside the entries, not in their path), before
// the log file that it names is removed, and at the end of an orderly stop, when it is exact. A log that does not match
// its mark is torn: its replicas are suspect, and in this case not even the only voter of a group continues by itself.
//
// The loss of bytes that were fsynced after the newest mark still goes unnoticed: those of the last half second plus
// one fsync.

// tailEvery is the interval between two updates of the mark.
const tailEvery = 500 * time.Millisecond

// tailMark is one statement about the log.
type tailMark struct {
	Count uint64 // number of the statement; the highest is valid
	// Pebble's options file, which is new whenever the database is opened, also by a version that writes no marks
	Session string
	File    string `json:",omitempty"` // the log file; "": no statement
	Synced  int64  `json:",omitempty"` // number of its bytes that were fsynced
	Sum     uint32 `json:",omitempty"` // crc32c of those bytes
}

// Marks are written to two slots in turn, so that an interrupted write leaves the other slot intact. A slot holds
//
//	crc32c of what follows (4) | length (4) | the mark as JSON
const tailSlot, tailSlots, tailSlotBytes = 4096, 2, 512

func (m tailMark) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil || len(text)+8 > tailSlotBytes {
		return nil, fmt.Errorf("a mark of %d bytes: %w", len(text), err)
	}
	b := append(binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(text))), text...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b, nil
}

func decodeTailMark(slot []byte) (m tailMark, ok bool) {
	if len(slot) < 8 {
		return m, false
	}
	n := uint64(binary.LittleEndian.Uint32(slot[4:])) + 8
	if n > uint64(len(slot)) || crc32.Checksum(slot[4:n], castagnoli) != binary.LittleEndian.Uint32(slot) {
		return m, false
	}
	return m, json.Unmarshal(slot[8:n], &m) == nil
}

// tail tracks how far the newest log file is on disk, and keeps the mark. It may be used concurrently.
type tail struct {
	files FS
	path  string // of the marks
	log   string // directory of the log files

	mu     sync.Mutex // taken by each write to the log, and never held during a write to the disk
	newest *logFile   // the file that Pebble writes to; nil before the first

	writing sync.Mutex // held while a mark is written; taken before mu
	slots   vfs.File   // nil until this process writes its first mark
	marked  tailMark   // the newest mark on disk
}

// logFile is one of Pebble's log files while it is written. Its fields are guarded by tail.mu.
type logFile struct {
	name            string // without its directory
	written, synced int64  // bytes
	sum, syncedSum  uint32 // crc32c of the written bytes, and of the synced ones
}

func isLogFile(name string) bool { return strings.HasSuffix(name, ".log") }

// begun notes that Pebble writes to a new log file.
func (t *tail) begun(name string) *logFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = &logFile{name: t.files.PathBase(name)}
	return t.newest
}

// wrote notes bytes that are about to be appended to a log file. Its next fsync covers them.
func (t *tail) wrote(f *logFile, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.written += int64(len(b))
	f.sum = crc32.Update(f.sum, castagnoli, b)
}

// fsynced notes that everything written before the fsync began is on disk. Pebble writes and fsyncs a log file from one
// goroutine at a time.
func (t *tail) fsynced(f *logFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.synced, f.syncedSum = f.written, f.sum
}

// now returns what is known about the newest log file.
func (t *tail) now() (file string, synced int64, sum uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil || t.newest.synced == 0 {
		return "", 0, 0
	}
	return t.newest.name, t.newest.synced, t.newest.syncedSum //mutant:tail-mark-ahead-of-fsync
}

// keep updates the mark.
func (t *tail) keep() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	return t.write(t.marked.Session)
}

// leave replaces the mark before the log file that it names is removed or reused.
func (t *tail) leave(name string) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.marked.File == "" || t.marked.File != t.files.PathBase(name) {
		return nil
	}
	return t.write(t.marked.Session)
}

// begin writes a mark for a database that was just opened.
func (t *tail) begin() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	session, err := t.session()
	if err != nil {
		return err
	}
	return t.write(session)
}

// write puts a new mark into the slot of the older one. t.writing must be held.
func (t *tail) write(session string) error {
	next := tailMark{Count: t.marked.Count + 1, Session: session}
	next.File, next.Synced, next.Sum = t.now()
	same := next
	if same.Count = t.marked.Count; same == t.marked && t.slots != nil {
		return nil
	}
	b, err := next.encode()
	if err != nil {
		return err
	}
	if t.slots == nil {
		if err := t.open(b); err != nil {
			return err
		}
	}
	if _, err := t.slots.WriteAt(b, int64(next.Count%tailSlots)*tailSlot); err != nil {
		return err
	}
	if err := t.slots.SyncData(); err != nil { //mutant:tail-mark-not-fsynced
		return err
	}
	t.marked = next
	return nil
}

// open opens the slots. If there are none, it creates them with the same mark in each.
func (t *tail) open(first []byte) error {
	there, err := isThere(t.files, t.path)
	if err != nil {
		return err
	}
	if !there {
		b := make([]byte, (tailSlots-1)*tailSlot+tailSlotBytes)
		for i := range tailSlots {
			copy(b[i*tailSlot:], first)
		}
		if err := writeWhole(t.files, t.path, b); err != nil {
			return err
		}
	}
	t.slots, err = t.files.OpenReadWrite(t.path, vfs.WriteCategoryUnspecified)
	return err
}

func (t *tail) close() error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.slots == nil {
		return nil
	}
	return t.slots.Close()
}

// session returns the name of Pebble's newest options file.
func (t *tail) session() (newest string, err error) {
	names, err := t.files.List(t.log)
	for _, name := range names { // the numbers have leading zeros, up to a million
		if strings.HasPrefix(name, "OPTIONS-") &&
			(len(name) > len(newest) || len(name) == len(newest) && name > newest) {
			newest = name
		}
	}
	return newest, err
}

// check compares the log with the newest mark, before Pebble opens the database. torn says what is missing; "" means
// that no mark contradicts the log. A database passes if it has no marks, or if a version that writes none has opened
// it since.
func (t *tail) check() (torn string, err error) {
	b, err := readFile(t.files, t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found := false
	for at := 0; at < len(b); at += tailSlot {
		if m, ok := decodeTailMark(b[at:min(len(b), at+tailSlotBytes)]); ok && (!found || m.Count > t.marked.Count) {
			t.marked, found = m, true
		}
	}
	if !found {
		return "how far the log was fsynced cannot be read", nil
	}
	session, err := t.session()
	if errors.Is(err, fs.ErrNotExist) { // Pebble will report it
		return "", nil
	}
	if err != nil || session != t.marked.Session { //mutant:mark-outlives-an-older-version
		t.marked.File = ""
		return "", err
	}
	return t.compare()
}

// compare reads the marked log file up to where it was fsynced; what is behind that may be torn.
func (t *tail) compare() (torn string, err error) {
	m := t.marked
	if m.File == "" {
		return "", nil
	}
	file, err := t.files.Open(t.files.PathJoin(t.log, m.File))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s is gone, of which %d bytes were fsynced", m.File, m.Synced), nil
	}
	if err != nil {
		return "", err
	}
	sum := crc32.New(castagnoli)
	n, err := io.CopyN(sum, file, m.Synced)
	if closed := file.Close(); err == nil || err == io.EOF {
		err = closed
	}
	switch {
	case err != nil:
		return "", err
	case n < m.Synced:
		return fmt.Sprintf("%s ends after %d bytes, of which %d were fsynced", m.File, n, m.Synced), nil
	case sum.Sum32() != m.Sum:
		return fmt.Sprintf("%s does not hold the %d bytes that were fsynced", m.File, m.Synced), nil
	}
	return "", nil
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
	defer s.watchdog.begin(pendingWrite{what: "marking how far the log is fsynced", hung: &nobody})()
	if err := s.tail.keep(); err != nil {
		s.fault.fail(writeFailed(fmt.Errorf("marking how far the log is fsynced: %w", err)))
	}
}
