package raftfsm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// snapshotsRetained is the number of snapshots kept on disk. raft reads the newest; the previous one remains valid
// while the newest is being written.
const snapshotsRetained = 2

// Names in a group's snapshot directory, in the format of raft.FileSnapshotStore: one directory for each snapshot,
// under another name while it is being written or deleted, with the description and the state in it.
const (
	snapshotsInner     = "snapshots"
	snapshotUnfinished = ".tmp"
	snapshotMetaName   = "meta.json"
	snapshotStateName  = "state.bin"
)

// snapshotStore keeps the snapshots of one group as raft.FileSnapshotStore does, with three additions: it works on any
// FS, every directory is fsynced into its parent, and an unreadable description is an error. raft skips such a snapshot
// and would start with an older state.
type snapshotStore struct {
	files FS
	dir   string // with one directory for each snapshot (snapshotsInner)
	// full while a snapshot is listed or finished: raft may finish its own and a received one concurrently
	turn chan struct{}
}

// snapshotMeta is the description of a snapshot.
type snapshotMeta struct {
	raft.SnapshotMeta
	CRC []byte // crc64 of the state
}

var crc64ECMA = crc64.MakeTable(crc64.ECMA)

// openSnapshots creates the group's snapshot directory and removes the remains of writes and deletions that a crash
// interrupted. The parent of dir must exist.
func openSnapshots(files FS, dir string) (*snapshotStore, error) {
	s := &snapshotStore{files: files, dir: files.PathJoin(dir, snapshotsInner), turn: make(chan struct{}, 1)}
	if err := errors.Join(makeDir(files, dir), makeDir(files, s.dir)); err != nil {
		return nil, err
	}
	names, err := files.List(s.dir)
	for _, name := range names {
		if strings.HasSuffix(name, snapshotUnfinished) {
			err = errors.Join(err, files.RemoveAll(files.PathJoin(s.dir, name)))
		}
	}
	if err != nil {
		return nil, err
	}
	_, err = s.List()
	return s, err
}

// takeTurn waits for a turn and returns a function that ends it. It is no mutex, because a goroutine that waits for a
// hung disk must not stop the time of a simulated world.
func (s *snapshotStore) takeTurn() (end func()) {
	//mutant:snapshots-finish-at-once 2
	s.turn <- struct{}{}
	return func() { <-s.turn }
}

// whole lists the finished snapshots, newest first. The caller must hold the turn.
func (s *snapshotStore) whole() ([]*raft.SnapshotMeta, error) {
	names, err := s.files.List(s.dir)
	if err != nil {
		return nil, err
	}
	var found []*raft.SnapshotMeta
	for _, name := range names {
		if strings.HasSuffix(name, snapshotUnfinished) {
			continue
		}
		info, err := s.files.Stat(s.files.PathJoin(s.dir, name))
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			continue
		}
		meta, err := s.describe(name)
		if err != nil {
			return nil, err
		}
		found = append(found, &meta.SnapshotMeta)
	}
	slices.SortFunc(found, func(a, b *raft.SnapshotMeta) int {
		return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Index, a.Index), cmp.Compare(b.ID, a.ID))
	})
	return found, nil
}

// List implements raft.SnapshotStore.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	defer s.takeTurn()()
	found, err := s.whole()
	return found[:min(len(found), snapshotsRetained)], err
}

// newest reads the state in the newest snapshot.
func (s *snapshotStore) newest(id shard.ID) (*shard.State, error) {
	found, err := s.List()
	if err != nil {
		return nil, err
	}
	_, from, err := s.Open(found[0].ID)
	if err != nil {
		return nil, err
	}
	state, err := shard.Restore(id, from)
	return state, errors.Join(err, from.Close())
}

// describe reads the description of a finished snapshot.
func (s *snapshotStore) describe(id string) (*snapshotMeta, error) {
	b, err := readFile(s.files, s.files.PathJoin(s.dir, id, snapshotMetaName))
	if errors.Is(err, fs.ErrNotExist) { // it existed before the snapshot got its name
		err = fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("a snapshot in %s cannot be read: %w", s.dir, err)
	}
	meta := new(snapshotMeta)
	if err := json.Unmarshal(b, meta); err != nil {
		return nil, fmt.Errorf("the description of snapshot %s in %s cannot be read: %w: %w",
			id, s.dir, err, ErrCorrupt)
	}
	if meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return nil, fmt.Errorf("snapshot %s in %s has an unknown version: run a newer version", id, s.dir)
	}
	return meta, nil
}

// Open implements raft.SnapshotStore. It reads the state once to check it, and again for the caller.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, err := s.describe(id)
	if err != nil {
		return nil, nil, err
	}
	path := s.files.PathJoin(s.dir, id, snapshotStateName)
	file, err := s.files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	sum := crc64.New(crc64ECMA)
	_, err = io.Copy(sum, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, nil, err
	}
	if got := sum.Sum(nil); !bytes.Equal(got, meta.CRC) {
		return nil, nil, fmt.Errorf("its crc64 is %x, it says %x: %w", got, meta.CRC, ErrCorrupt)
	}
	if file, err = s.files.Open(path); err != nil {
		return nil, nil, err
	}
	return &meta.SnapshotMeta, &bufferedFile{bufio.NewReader(file), file}, nil
}

type bufferedFile struct {
	*bufio.Reader
	file vfs.File
}

func (f *bufferedFile) Close() error { return f.file.Close() }

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	id := fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixMilli())
	k := &snapshotSink{store: s, draft: s.files.PathJoin(s.dir, id+snapshotUnfinished), sum: crc64.New(crc64ECMA),
		meta: snapshotMeta{SnapshotMeta: raft.SnapshotMeta{Version: version, ID: id, Index: index, Term: term,
			Configuration: members, ConfigurationIndex: membersIndex}}}
	err := s.files.MkdirAll(k.draft, dirMode)
	if err != nil {
		return nil, err
	}
	k.file, err = s.files.Create(s.files.PathJoin(k.draft, snapshotStateName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, errors.Join(err, s.files.RemoveAll(k.draft))
	}
	k.buffer = bufio.NewWriterSize(io.MultiWriter(k.sum, k.file), snapshotBuffer)
	return k, nil
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	store  *snapshotStore
	draft  string // its directory
	meta   snapshotMeta
	file   vfs.File      // of the state, in the draft
	buffer *bufio.Writer // feeds sum, then file
	sum    hash.Hash64   // of what the buffer has passed on
	closed bool          // closed or canceled
}

// ID implements raft.SnapshotSink.
func (k *snapshotSink) ID() string { return k.meta.ID }

// snapshotBuffer is the number of bytes written to a file at once.
const snapshotBuffer = 64 << 10

// Write implements raft.SnapshotSink. A vfs.File may modify the bytes that it writes, so it gets a copy, after the
// checksum.
func (k *snapshotSink) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		n := min(len(b), k.buffer.Available())
		if n == 0 {
			err = k.buffer.Flush()
			continue
		}
		n, err = k.buffer.Write(b[:n])
		b, written = b[n:], written+n
	}
	k.meta.Size += int64(written)
	return written, err
}

// Close implements raft.SnapshotSink. When it returns nil, the snapshot survives a power cut. It may be called again.
func (k *snapshotSink) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	//mutant:snapshot-not-fsynced //mutant:snapshot-not-fsynced-in-clusters
	if err := errors.Join(k.buffer.Flush(), k.file.Sync(), k.file.Close()); err != nil {
		return errors.Join(err, k.store.files.RemoveAll(k.draft))
	}
	k.meta.CRC = k.sum.Sum(nil)
	if err := k.store.finish(k.draft, k.meta); err != nil {
		return errors.Join(err, k.store.files.RemoveAll(k.draft)) //mutant:full-disk-keeps-a-draft
	}
	return nil
}

// Cancel implements raft.SnapshotSink.
func (k *snapshotSink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	return errors.Join(k.file.Close(), k.store.files.RemoveAll(k.draft))
}

// finish moves a snapshot into place and deletes the snapshots that are no longer needed.
func (s *snapshotStore) finish(draft string, meta snapshotMeta) error {
	err := writeSynced(s.files, s.files.PathJoin(draft, snapshotMetaName), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(meta)
	})
	if err != nil {
		return err
	}
	if err := syncDir(s.files, draft); err != nil { //mutant:snapshot-files-not-fsynced
		return err
	}
	defer s.takeTurn()()
	if err := s.files.Rename(draft, s.files.PathJoin(s.dir, meta.ID)); err != nil {
		return err
	}
	if err := syncDir(s.files, s.dir); err != nil { //mutant:snapshot-name-not-fsynced
		return err
	}
	found, err := s.whole()
	for _, old := range found[min(len(found), snapshotsRetained):] {
		err = errors.Join(err, s.remove(old.ID)) //mutant:snapshot-deleted-in-place
	}
	return err
}

// remove deletes a snapshot. It first renames it to an unfinished one, so that an interrupted deletion leaves no
// snapshot without its description.
func (s *snapshotStore) remove(id string) error {
	path := s.files.PathJoin(s.dir, id)
	err := s.files.Rename(path, path+snapshotUnfinished)
	if err == nil {
		err = syncDir(s.files, s.dir)
	}
	if err != nil {
		return err
	}
	return s.files.RemoveAll(path + snapshotUnfinished)
}
