package raftfsm

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memnet"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Pebble leaks a goroutine when it cannot open a database.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"))
}

var testIdentity = Identity{Cluster: "c1", Node: "n1"}

// world is the stores of one node, together with the error that their Fatal was called with.
type world struct {
	*Stores
	fatal chan error
	calls atomic.Int32
	lost  lines // of the log, that say that a leader has lost its majority
}

// lines counts the lines of a log that have a text.
type lines struct {
	text []byte
	n    atomic.Int32
}

// Write implements io.Writer.
func (l *lines) Write(line []byte) (int, error) {
	if bytes.Contains(line, l.text) {
		l.n.Add(1)
	}
	return len(line), nil
}

// openWorld opens stores whose writes may take any time: the machine's disk, which has the small file of most of these
// tests, may stand still for seconds.
func openWorld(t testing.TB, dir string, fs vfs.FS, node string) *world {
	t.Helper()
	return openWorldOf(t, dir, fs, node, StoresConfig{fatal: math.MaxInt})
}

// openSmallWorld makes Pebble flush and start a new log file every few entries.
func openSmallWorld(t testing.TB, dir string, fs vfs.FS) *world {
	t.Helper()
	return openWorldOf(t, dir, fs, "n1", StoresConfig{fatal: math.MaxInt, memTable: 64 << 10})
}

// openWatchedWorld is openWorld for bubbles, where time does not pass while the machine's disk stands still: a write
// that hangs ends the node.
func openWatchedWorld(t testing.TB, dir string, fs vfs.FS, node string) *world {
	t.Helper()
	return openWorldOf(t, dir, fs, node, StoresConfig{})
}

func openWorldOf(t testing.TB, dir string, fs vfs.FS, node string, config StoresConfig) *world {
	t.Helper()
	w := &world{fatal: make(chan error, 1)}
	w.lost.text = []byte(quorumLost)
	config.Fresh, config.FS = testIdentity, fs
	config.Fresh.Node = node
	config.Fatal = func(err error) {
		if w.calls.Add(1) == 1 {
			w.fatal <- err
		}
	}
	config.Logger = slog.New(slog.NewTextHandler(&w.lost, nil))
	stores, err := OpenStores(dir, config)
	if err != nil {
		t.Fatal(err)
	}
	w.Stores = stores
	return w
}

func (w *world) close(t testing.TB) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) mustStop(t testing.TB) error {
	t.Helper()
	return await.Receive(t, "the stores failed, and Fatal is called", w.fatal)
}

var lone = Replica{Shard: 1, Number: 7}

// loneGroup creates and opens a group of one voter.
func (w *world) loneGroup(t testing.TB) *Group {
	t.Helper()
	if err := CreateGroup(w.Stores, lone, []string{lone.Name(w.identity.Node)}); err != nil {
		t.Fatal(err)
	}
	return w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
}

func (w *world) openGroup(t testing.TB, cfg GroupConfig) *Group {
	t.Helper()
	g, err := w.tryGroup(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tryGroup opens a group. Without a stream layer it is the only member on its net.
func (w *world) tryGroup(cfg GroupConfig) (*Group, error) {
	if cfg.Stream == nil {
		cfg.Stream = memnet.New().Listen(cfg.Replica.Name(w.identity.Node))
	}
	return OpenGroup(w.Stores, cfg)
}

// owner proposes as an actor would: an EpochOpen, then batches in sequence.
type owner struct {
	*Group
	at shard.Stamp
}

func lead(t testing.TB, g *Group) *owner {
	t.Helper()
	o := &owner{Group: g}
	await.Until(t, "leadership of "+g.name, g.Leading)
	id := g.cfg.Replica.Shard
	outcome, err := g.Propose(shard.EncodeEpochOpen(id, 1, shard.LevelNewest))()
	if err != nil {
		t.Fatal(err)
	}
	o.at = shard.Stamp{Position: shard.Position{Shard: id, Epoch: outcome.Epoch}, Now: outcome.Time}
	return o
}

func (o *owner) next(key, value string) []byte {
	o.at.Seq++
	o.at.Now++
	return shard.EncodeBatch(o.at, []shard.Put{{Key: key,
		Record: shard.Record{Value: []byte(value), ForgetAt: limit.Forever}}})
}

// put proposes one effect and returns nil if it was acknowledged.
func (o *owner) put(key, value string) error {
	outcome, err := o.Propose(o.next(key, value))()
	if err == nil && outcome.Dropped != shard.NotDropped {
		err = fmt.Errorf("dropped: %v", outcome.Dropped)
	}
	return err
}

func (o *owner) mustPut(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		if err := o.put(fmt.Sprint("key", i), fmt.Sprint("value", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// mustPutAtOnce proposes all effects without waiting for each.
func (o *owner) mustPutAtOnce(t testing.TB, n int) {
	t.Helper()
	waits := make([]func() (shard.Outcome, error), 0, n)
	for i := range n {
		waits = append(waits, o.Propose(o.next(fmt.Sprint("key", i), fmt.Sprint("value", i))))
	}
	for _, wait := range waits {
		if _, err := wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func mustHold(t testing.TB, g *Group, n int) {
	t.Helper()
	g.View(func(s *shard.State) {
		for i := range n {
			r, found := s.Lookup(fmt.Sprint("key", i))
			if !found || string(r.Value) != fmt.Sprint("value", i) {
				t.Errorf("key %d was acknowledged and is %q now", i, r.Value)
			}
		}
	})
}

type raftLog = raft.Log

func key(i int) string   { return fmt.Sprint("key", i) }
func value(i int) string { return fmt.Sprint("value", i) }
