package decisions

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

func sizeAsJSON(t *testing.T, v any) int {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// sink is an Output in memory that can fail and hang.
type sink struct {
	mu      sync.Mutex
	lines   []byte
	fault   error
	hanging chan struct{} // writes wait until it is closed; nil: they do not
	begun   atomic.Int64  // writes
	reopens int
	closed  bool
}

func (s *sink) Write(lines []byte) (int, error) {
	s.begun.Add(1)
	if s.hanging != nil {
		<-s.hanging
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return 0, s.fault
	}
	s.lines = append(s.lines, lines...)
	return len(lines), nil
}

func (s *sink) Reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reopens++
	return s.fault
}

func (s *sink) Close() error { s.closed = true; return nil }

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// events are the lines of a log.
func (s *sink) events(t *testing.T) (all []Record) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range bytes.Lines(s.lines) {
		var e Record
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// dropped counts the lines that a log has lost.
type dropped struct{ full, disk atomic.Int64 }

func (d *dropped) add(reason string, lines int) {
	map[string]*atomic.Int64{"full": &d.full, "disk": &d.disk}[reason].Add(int64(lines))
}

func hide(namespace, key string) (string, bool) { return "H(" + namespace + key + ")", true }

// The sum of weights is the truth: for denials below the bound of a second exactly, line by line, and for all others on
// average.
func TestWeightsAddUpToTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 4))
	s := newSampler(100)
	at := time.Unix(1000, 0)
	s.random, s.now = random.Uint64, func() time.Time { return at }
	lines, sums, truth := map[string]int{}, map[string]uint64{}, map[string]uint64{}
	tell := func(kind Kind, policy, group string, n int) {
		for range n {
			weight := s.weight(kind, policy)
			if truth[group]++; weight > 0 {
				lines[group]++
				sums[group] += weight
			}
		}
	}
	for second := range 30 {
		at = time.Unix(int64(1000+second), 0)
		tell(Denied, "login", "below", 999)
		tell(Denied, "flood", "flood", 20_000)
		tell(Allowed, "login", "allowed", 10_000)
		tell(Settled, "login", "settled", 5_000)
		tell(ShadowDenied, "shadow", "shadow", 1000)
	}
	for _, exact := range []string{"below", "shadow"} {
		if sums[exact] != truth[exact] || uint64(lines[exact]) != truth[exact] {
			t.Errorf("%s: %d lines that weigh %d, want %d", exact, lines[exact], sums[exact], truth[exact])
		}
	}
	for _, sampled := range []string{"flood", "allowed", "settled"} {
		if off := float64(sums[sampled])/float64(truth[sampled]) - 1; off < -0.05 || off > 0.05 {
			t.Errorf("%s: the weights add up to %d, and the truth is %d", sampled, sums[sampled], truth[sampled])
		}
	}
	if most := 30 * 3100; lines["flood"] > most {
		t.Errorf("a flood makes %d lines, more than %d", lines["flood"], most)
	}
	none, all := newSampler(0), newSampler(1)
	if none.weight(Allowed, "p") != 0 || none.weight(Denied, "p") != 1 || all.weight(Allowed, "p") != 1 {
		t.Error("none and all are not what they say")
	}
}

// Keys are in the log as its configuration says, and each line says what it stands for.
func TestALogShowsKeysAsItIsTold(t *testing.T) {
	for keys, want := range map[Keys]string{"": `"key_hash":"H(defaultann)"`, KeysPlain: `"key":"ann"`,
		KeysNone: `"policy":"login"`} {
		to := &sink{}
		l := NewLog(LogConfig{Out: to, Keys: keys, Hide: hide, AllowedEvery: 1, Logger: slog.New(slog.DiscardHandler)})
		b := NewBus("n", l)
		e := event(Denied, "login", "ann")
		e.Others = []Entry{{Policy: "org", Key: "bob", Cost: 3}}
		tell(b, e)
		tell(b, event(Allowed, "login", "ann"))
		l.Close(time.Minute)
		text := string(to.lines)
		if shown := strings.Contains(text, `"ann"`) || strings.Contains(text, `"bob"`); shown != (keys == KeysPlain) ||
			!strings.Contains(text, want) {
			t.Errorf("%q: %s", keys, text)
		}
		if e.Key != "ann" || e.Others[0].Key != "bob" {
			t.Error("the log has changed an event that others have too")
		}
		if all := to.events(t); len(all) != 2 || all[0].Weight != 1 || all[0].Others[0].Cost != 3 || !to.closed {
			t.Errorf("%q: %+v", keys, all)
		}
		tell(b, e) // after the end
		l.Close(time.Minute)
	}
}

// A disk that hangs delays no decision: the ring takes what it can, and the rest is counted. Nor does it keep the node
// from stopping.
func TestADiskThatHangsDelaysNobody(t *testing.T) {
	to, lost := &sink{hanging: make(chan struct{})}, &dropped{}
	l := NewLog(LogConfig{Out: to, Hide: hide, AllowedEvery: 1, Dropped: lost.add,
		Logger: slog.New(slog.DiscardHandler)})
	b := NewBus("n", l)
	tell(b, event(Allowed, "p", "first"))
	await.Until(t, "the log writes", func() bool { return to.begun.Load() == 1 })
	for range logRing + 10 {
		tell(b, event(Allowed, "p", "k"))
	}
	if lost.full.Load() != 10 {
		t.Errorf("%d lines were dropped, want 10", lost.full.Load())
	}
	l.Close(time.Millisecond)
	close(to.hanging)
	<-l.ended
	if n := len(to.events(t)); n != logRing+1 {
		t.Errorf("%d lines were written, want %d", n, logRing+1)
	}
}

// A disk that fails is reported once, its lines are counted, and when it works again the log goes on.
func TestADiskThatFailsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		to, lost := &sink{fault: errors.New("no space left on device")}, &dropped{}
		l := NewLog(LogConfig{Out: to, Hide: hide, AllowedEvery: 1, Dropped: lost.add,
			Logger: slog.New(slog.NewTextHandler(&told, nil))})
		b := NewBus("n", l)
		for range 100 {
			tell(b, event(Denied, "p", "k"))
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := strings.Count(told.String(), "cannot be written"); n != 1 || lost.disk.Load() != 100 {
			t.Errorf("told %d times, %d lines lost:\n%s", n, lost.disk.Load(), told.String())
		}
		if to.reopens > 12 {
			t.Errorf("in 10 s it was tried %d times", to.reopens)
		}
		to.fail(nil)
		time.Sleep(2 * time.Second)
		tell(b, event(Denied, "p", "again"))
		synctest.Wait()
		if all := to.events(t); len(all) != 1 || !strings.Contains(told.String(), "is written again") {
			t.Errorf("%d lines, told:\n%s", len(all), told.String())
		}
		l.Close(time.Second)
	})
}

// A file is rotated by size between two lines, the number of files is bounded, and a restart goes on with the file.
func TestAFileIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.log")
	config := FileConfig{Path: path, Bytes: 100, Files: 3}
	line := []byte(strings.Repeat("x", 39) + "\n") // two fit into a file
	for range 5 {                                  // restarts
		f := File(config)
		if err := f.Reopen(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := f.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, lines := range map[string]int{path: 1, path + ".1": 2, path + ".2": 2} {
		text, err := os.ReadFile(name)
		if err != nil || bytes.Count(text, []byte("\n")) != lines || len(text) != lines*len(line) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Stat(path + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a fourth file is kept:", err)
	}
	alone := File(FileConfig{Path: path + "-alone", Bytes: 100, Files: 1})
	for range 5 {
		if err := alone.Reopen(); err != nil {
			t.Fatal(err)
		}
		if _, err := alone.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path + "-alone"); err != nil || len(text) != len(line) {
		t.Errorf("one file that is kept alone has %d bytes: %v", len(text), err)
	}
	if _, err := File(config).Write(line); err == nil {
		t.Error("a file that is not open is written")
	}
	if err := File(FileConfig{Path: filepath.Join(path, "no", "directory")}).Reopen(); err == nil {
		t.Error("a file in no directory is opened")
	}
}

// A crash of the machine may cut the last line. Those after it are whole.
func TestALineAfterACutOneIsWhole(t *testing.T) {
	const two = "{}\n{}\n"
	for before, want := range map[string]string{"": two, "{}\n": "{}\n" + two, `{"at":"20`: `{"at":"20` + "\n" + two} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			f := File(FileConfig{Path: path, Bytes: 1 << 20, Files: 2})
			err := f.Reopen()
			if err == nil {
				_, err = f.Write([]byte("{}\n"))
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("after %q: %q, want %q: %v", before, text, want, err)
		}
	}
}

// /dev/full is a disk without room: a real error of a real write.
func TestARealFullDisk(t *testing.T) {
	f := File(FileConfig{Path: "/dev/full", Bytes: 1 << 20, Files: 1})
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("{}\n")); !strings.Contains(err.Error(), "no space left") {
		t.Error(err)
	}
}

func BenchmarkTell(b *testing.B) {
	discard := NewLog(LogConfig{Out: To(discarding{}), Hide: hide, AllowedEvery: 100,
		Logger: slog.New(slog.DiscardHandler)})
	defer discard.Close(time.Second)
	watched := NewBus("n", nil)
	reader := watched.Open(&Filter{Namespace: "default"})
	defer reader.Close()
	denials := NewBus("n", nil)
	of := denials.Open(&Filter{Namespace: "default", Kinds: []Kind{Denied}})
	defer of.Close()
	for _, c := range []struct {
		name string
		bus  *Bus
		kind Kind
	}{{"off", NewBus("n", nil), Allowed}, {"log/allowed", NewBus("n", discard), Allowed},
		{"log/denied", NewBus("n", discard), Denied}, {"watch/all", watched, Allowed},
		{"watch/of-denials/allowed", denials, Allowed}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			e := event(c.kind, "p", "k")
			for b.Loop() {
				tell(c.bus, e)
			}
		})
	}
}

type discarding struct{}

func (discarding) Write(p []byte) (int, error) { return len(p), nil }
