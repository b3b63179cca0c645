package raftfsm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stint-io/stint/internal/testing/memfs"
)

// markedLog returns the data directory of a node that was killed after it had marked the end of its log, and the log
// file that it wrote to. The directory holds the only voter of one group and one of three voters of another.
func markedLog(t *testing.T, entries int, stop func(*world)) (dir, log string) {
	t.Helper()
	dir = t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	if err := CreateGroup(w.Stores, voter, append(ofOtherTwo, voter.Name("n1"))); err != nil {
		t.Fatal(err)
	}
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, entries)
	w.still()
	stop(w)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(copied, logName, w.tail.marked.File)
	g.Shutdown()
	w.close(t)
	return copied, log
}

func killed(w *world) { w.keepTail() }

// still ends what the stores do by the clock: from now on the mark says what it said, however long a test takes.
func (w *world) still() {
	close(w.stop)
	w.watching.Wait()
	w.stop = make(chan struct{}) // which Close closes
}

// The end of the newest log file is lost or changed although it was fsynced. No replica on it is opened under the name
// that acknowledged it, not even the only voter of a group, until a person decides. Pebble takes each of these damages
// for the torn end that a crash leaves.
func TestTornEndOfTheLogIsNoticed(t *testing.T) {
	for what, harm := range map[string]func(*testing.T, string){
		"100 bytes are gone":  func(t *testing.T, log string) { cutFile(t, log, 100) },
		"5000 bytes are gone": func(t *testing.T, log string) { cutFile(t, log, 5000) },
		"all is gone":         func(t *testing.T, log string) { cutFile(t, log, 1<<40) },
		"a byte flips":        func(t *testing.T, log string) { flipByte(t, log, sizeOf(t, log)-500) },
		"the file is gone":    func(t *testing.T, log string) { os.Remove(log) },
	} {
		t.Run(what, func(t *testing.T) {
			dir, log := markedLog(t, 200, killed)
			harm(t, log)
			for range 2 { // the mark stays
				w := openWorld(t, dir, nil, "n1")
				if _, err := w.tryGroup(GroupConfig{Replica: voter}); !errors.Is(err, ErrLost) {
					t.Errorf("one of three was opened: %v", err)
				}
				_, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true})
				if !errors.Is(err, ErrLost) ||
					!strings.Contains(fmt.Sprint(err), "delete "+filepath.Join(dir, suspectName)) {
					t.Errorf("the only voter was opened: %v", err)
				}
				w.close(t)
			}
			if err := os.Remove(filepath.Join(dir, suspectName)); err != nil {
				t.Fatal(err)
			}
			w := openWorld(t, dir, nil, "n1")
			defer w.close(t)
			g, err := w.tryGroup(GroupConfig{Replica: lone, Lone: true})
			if strings.HasSuffix(what, "is gone") { // nothing is left
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			lead(t, g)
			g.Shutdown()
		})
	}
}

// For bytes after the newest mark it is unknown whether they were fsynced. This is the limit that the guarantees name.
func TestEndBehindTheMarkCannotBeTold(t *testing.T) {
	dir, log := markedLog(t, 20, func(w *world) {
		w.keepTail()
		for range 10 {
			if err := mustOpenLog(t, w).StoreLog(&raftLog{Index: 1000, Term: 9}); err != nil {
				t.Fatal(err)
			}
		}
	})
	cutFile(t, log, 20)
	w := openWorld(t, dir, nil, "n1")
	if w.Suspect() {
		t.Error("the mark knows more than it can")
	}
	w.close(t)
}

// After an orderly stop the mark is exact.
func TestMarkIsExactAfterAStop(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir, nil, "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 20)
	g.Shutdown()
	w.close(t)
	log := filepath.Join(dir, logName, w.tail.marked.File)
	if size := sizeOf(t, log); int64(size) != w.tail.marked.Synced {
		t.Errorf("%s has %d bytes, %d are marked", log, size, w.tail.marked.Synced)
	}
	cutFile(t, log, 1)
	w = openWorld(t, dir, nil, "n1")
	if !w.Suspect() {
		t.Error("a byte is gone, and nobody has noticed")
	}
	w.close(t)
}

// Within a second, every fsynced entry is covered by the mark.
func TestMarkIsYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := memfs.New(dir)
		w := openWorld(t, dir, disk, "n1")
		g := w.loneGroup(t)
		o := lead(t, g)
		for i := range 5 {
			o.mustPut(t, 3)
			time.Sleep(time.Second)
			synctest.Wait()
			file, synced, sum := w.tail.now()
			crashed := memfs.CrashClone(disk, 0, 1)
			marks := tail{files: crashed, path: w.tail.path, log: w.tail.log}
			if torn, err := marks.check(); torn != "" || err != nil {
				t.Errorf("second %d: %s, %v", i, torn, err)
			}
			if m := marks.marked; synced == 0 || m.File != file || m.Synced != synced || m.Sum != sum {
				t.Errorf("second %d: %d bytes of %s are fsynced, the mark is %+v", i, synced, file, m)
			}
		}
		g.Shutdown()
		w.close(t)
	})
}

// Pebble creates, flushes, renames and deletes log files. The power may fail at any moment, with the loss of any part
// of the unfsynced data: the disk is never reported as having lost something.
func TestMarkIsNeverWrongAboutASoundDisk(t *testing.T) {
	dir, disk := t.TempDir(), memfs.New()
	if err := makeDirs(disk, dir); err != nil {
		t.Fatal(err)
	}
	var w *world
	operations, checked := 0, 0
	moment := func() {
		if operations++; w == nil || operations%5 != 0 {
			return
		}
		for _, kept := range []int{0, 50, 100} {
			marks := tail{files: memfs.CrashClone(disk, kept, int64(operations)), path: w.tail.path, log: w.tail.log}
			if torn, err := marks.check(); torn != "" || err != nil {
				t.Errorf("operation %d, %d %% of the rest kept: %s, %v", operations, kept, torn, err)
			}
			if marks.marked.File != "" {
				checked++
			}
		}
	}
	busy := make(chan struct{}, 1) // operations come from several goroutines
	watched := errorfs.Wrap(disk, errorfs.InjectorFunc(func(errorfs.Op) error {
		busy <- struct{}{}
		moment()
		<-busy
		return nil
	}))
	for range 3 {
		opened := openSmallWorld(t, dir, watched)
		busy <- struct{}{}
		w = opened
		<-busy
		log := mustOpenLog(t, w)
		for i := uint64(1); i <= 60; i++ {
			if err := log.StoreLog(&raftLog{Index: i, Term: 1, Data: make([]byte, 8<<10)}); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				w.keepTail()
			}
		}
		w.close(t)
	}
	if checked < 100 {
		t.Errorf("only %d moments had a mark", checked)
	}
}

// Pebble removes or reuses the log file that the mark names: the mark names the next one before, with all that is
// fsynced.
func TestNoLogFileGoesWhileItIsMarked(t *testing.T) {
	for how, leave := range map[string]func(fs vfs.FS, name string) error{
		"removed": func(fs vfs.FS, name string) error { return fs.Remove(name) },
		"reused": func(fs vfs.FS, name string) error {
			file, err := fs.ReuseForWrite(name, "/log/000003.log", vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			return file.Close()
		},
	} {
		t.Run(how, func(t *testing.T) {
			disk := memfs.New()
			marks := &tail{files: disk, path: "/tail", log: "/log"}
			if err := disk.MkdirAll("/log", dirMode); err != nil {
				t.Fatal(err)
			}
			fs := newFaultyFS(disk, &diskLatch{}, marks)
			writeLog(t, fs, "/log/000001.log")
			if err := marks.begin(); err != nil {
				t.Fatal(err)
			}
			writeLog(t, fs, "/log/000002.log")
			if marks.marked.File != "000001.log" {
				t.Fatalf("the mark names %q", marks.marked.File)
			}
			if err := leave(fs, "/log/000001.log"); err != nil {
				t.Fatal(err)
			}
			after := tail{files: memfs.CrashClone(disk, 0, 1), path: "/tail", log: "/log"}
			if torn, err := after.check(); torn != "" || err != nil || after.marked.File != "000002.log" {
				t.Errorf("the mark names %q: %s, %v", after.marked.File, torn, err)
			}
		})
	}
}

// writeLog writes and fsyncs a log file as Pebble does.
func writeLog(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write([]byte(name))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	dir, err := fs.OpenDir("/log")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

// Bytes that were written and not fsynced may be lost without any fault of the disk.
func TestMarkSpeaksOfWhatIsFsynced(t *testing.T) {
	marks := tail{files: memfs.New()}
	log := marks.begun("/data/log/000002.log")
	marks.wrote(log, []byte("first"))
	if file, _, _ := marks.now(); file != "" {
		t.Errorf("nothing was fsynced, and there is a mark of %s", file)
	}
	marks.fsynced(log)
	_, _, first := marks.now()
	marks.wrote(log, []byte("second"))
	if file, synced, sum := marks.now(); file != "000002.log" || synced != 5 || sum != first {
		t.Errorf("marked: %d bytes of %s, sum %d", synced, file, sum)
	}
}

// A version that writes no marks has used the database in between. The old mark is outdated, which is not an error.
func TestMarkEndsWithAVersionThatWritesNone(t *testing.T) {
	dir, _ := markedLog(t, 20, killed)
	older, err := pebble.Open(filepath.Join(dir, logName),
		&pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: pebbleLogger{quiet.to, nil}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(older.Set([]byte("key"), []byte("value"), pebble.Sync), older.Flush(),
		older.Close()); err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, dir, nil, "n1")
	defer w.close(t)
	if w.Suspect() {
		t.Error("an older version is taken for a failing disk")
	}
}

// One slot may be half written. If neither can be read, it is unknown how far the log was fsynced.
func TestMarkHasTwoSlots(t *testing.T) {
	for _, harmed := range []int{1, 2} {
		dir, _ := markedLog(t, 20, killed)
		path := filepath.Join(dir, tailName)
		for slot := range harmed {
			flipByte(t, path, slot*tailSlot+20)
		}
		w := openWorld(t, dir, nil, "n1")
		if w.Suspect() != (harmed == tailSlots) {
			t.Errorf("%d slots cannot be read, suspect: %v", harmed, w.Suspect())
		}
		w.close(t)
	}
}

// The formats on disk. A version that does not know Torn reads the other fields of the second one.
func TestGoldenMarks(t *testing.T) {
	b, err := tailMark{Count: 7, Session: "OPTIONS-000008", File: "000009.log", Synced: 1234, Sum: 99}.encode()
	const golden = "_l\xa0\xd0Q\x00\x00\x00{\"Count\":7,\"Session\":\"OPTIONS-000008\",\"File\":\"000009.log\"," +
		"\"Synced\":1234,\"Sum\":99}"
	if err != nil || string(b) != golden {
		t.Errorf("a mark is %q, %v", b, err)
	}
	if m, ok := decodeTailMark([]byte(golden)); !ok || m.Synced != 1234 || m.Count != 7 {
		t.Errorf("a mark reads as %+v", m)
	}
	dir := t.TempDir()
	var s suspicion
	if err := s.load(newDisk(nil), dir, []groupRecord{{Replica: lone}}); err != nil {
		t.Fatal(err)
	}
	s.raise()
	failed, _ := os.ReadFile(filepath.Join(dir, suspectName))
	if err := s.tear("a part"); err != nil {
		t.Fatal(err)
	}
	s.raise() // and the disk fails, too
	torn, _ := os.ReadFile(filepath.Join(dir, suspectName))
	if string(failed) != `[{"Shard":1,"Number":7}]` || string(torn) != `[{"Shard":1,"Number":7,"Torn":"a part"}]` {
		t.Errorf("marks are %s and %s", failed, torn)
	}
}

func sizeOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

func cutFile(t *testing.T, path string, bytes int) {
	t.Helper()
	if err := os.Truncate(path, int64(max(0, sizeOf(t, path)-bytes))); err != nil {
		t.Fatal(err)
	}
}
