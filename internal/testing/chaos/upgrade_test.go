//go:build chaos && nextlevel

package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/shard"
)

func init() { tags += ",nextlevel" }

// levels is the output of `stint cluster upgrade status`.
type levels struct {
	Level, KnownByAll uint32
	Nodes             []struct {
		ID        string
		Max, Kept uint32
		Alive     bool
	}
}

func levelsOf(ctx context.Context, address string) (l levels, err error) {
	err = askCluster(ctx, address, "UpgradeStatus", &l)
	return l, err
}

// awaitLevels asks a node until the levels that it reports are as they should be.
func awaitLevels(ctx context.Context, address string, is func(levels) bool) error {
	var l levels
	var err error
	for {
		if l, err = levelsOf(ctx, address); err == nil && is(l) {
			return nil
		}
		if late := pause(ctx, 100*time.Millisecond); late != nil {
			return fmt.Errorf("%w: the levels are %+v (%v)", late, l, err)
		}
	}
}

// upgrade is a cluster on its way from this build to the one that knows one level more.
type upgrade struct {
	*testing.T
	c        *testcluster.Cluster
	old, new string
	mixed    time.Duration // how long nodes of both builds ran
	restarts int
}

// runs restarts a node in order with another binary.
func (u *upgrade) runs(ctx context.Context, i int, binary string) error {
	u.restarts++
	u.c.UseBinary(i, binary)
	return restart(ctx, u.c, i)
}

// roll upgrades all nodes, one at a time, takes the second one back once, and finishes the level.
func (u *upgrade) roll(ctx context.Context) error {
	began := time.Now()
	for _, step := range []struct {
		node   int
		binary string
	}{{0, u.new}, {1, u.new}, {1, u.old}, {1, u.new}, {2, u.new}} {
		if err := u.runs(ctx, step.node, step.binary); err != nil {
			return err
		}
		if step.node == 2 {
			break
		}
		if err := pause(ctx, 12*time.Second); err != nil { // longer than an owner's interval between two sum entries
			return err
		}
	}
	u.mixed = time.Since(began)
	all := func(l levels) bool {
		return l.Level == uint32(shard.LevelFirst) && l.KnownByAll == uint32(shard.LevelNewest) && len(l.Nodes) == 3
	}
	if err := awaitLevels(within(u.T, 20*time.Second), u.c.Addr(1), all); err != nil {
		return fmt.Errorf("all nodes run the new build: %w", err)
	}
	u.hasWritten(shard.LevelFirst)
	if err := stint(ctx, "cluster", "upgrade", "finish", "--addr", u.c.Addr(2)); err != nil {
		return err
	}
	for i := range u.c.Len() {
		risen := func(l levels) bool { return l.Level == uint32(shard.LevelNewest) }
		if err := awaitLevels(within(u.T, 20*time.Second), u.c.Addr(i), risen); err != nil {
			return fmt.Errorf("the level is finished: %w", err)
		}
	}
	for i := range u.c.Len() { // the cluster at the new level is restarted
		if err := u.runs(ctx, i, u.new); err != nil {
			return err
		}
	}
	return pause(ctx, 12*time.Second)
}

// hasWritten checks that the newest entries in the nodes' logs are of a level.
func (u *upgrade) hasWritten(newest shard.Level) {
	u.Helper()
	for i := range u.c.Len() {
		var sums map[shard.Level]int
		await.Until(u.T, u.c.Name(i)+" has a sum entry of the newest level", func() bool {
			sums = u.sums(i)
			return sums[newest] > 0
		}, &sums)
		if newest < shard.LevelNewest && sums[shard.LevelNewest] > 0 {
			u.Errorf("%s has sum entries of each level: %v; want none above level %d", u.c.Name(i), sums, newest)
		}
	}
}

// sums counts the sum entries of each level in the log of a node.
func (u *upgrade) sums(i int) map[shard.Level]int {
	u.Helper()
	sums := map[shard.Level]int{}
	files, err := filepath.Glob(filepath.Join(u.c.Dir(i), "log", "*.log"))
	if err != nil {
		u.Error(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file) // Pebble may remove one that is full
		if err != nil && !os.IsNotExist(err) {
			u.Error(err)
		}
		for level := shard.LevelFirst; level <= shard.LevelNewest; level++ {
			sums[level] += sumEntries(b, level)
		}
	}
	return sums
}

// sumEntries counts the sum entries of a level in a file of the log, which Pebble does not pack: level, kind 3, four
// numbers, and the checksum of these.
func sumEntries(b []byte, level shard.Level) (count int) {
	for at := range b {
		if at+2 > len(b) || b[at] != byte(level) || b[at+1] != 3 {
			continue
		}
		end := at + 2
		for range 4 {
			_, n := binary.Uvarint(b[end:])
			end += max(n, 0)
		}
		if end+4 <= len(b) &&
			crc32.Checksum(b[at:end], crc32.MakeTable(crc32.Castagnoli)) == binary.LittleEndian.Uint32(b[end:]) {
			count++
		}
	}
	return count
}

// TestUpgradeToTheNextLevel: a cluster is upgraded node by node under load, to a build that knows one level more. Both
// builds run side by side, a node goes back, the level is finished, and no client is affected. Only then are entries
// written that the former build could not read: it would halt at one. From then on it is refused.
func TestUpgradeToTheNextLevel(t *testing.T) {
	next, err := testcluster.Binary("chaos", "nextlevel")
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrade{T: t, old: program(t), new: next}
	u.c = testcluster.Run(t, testcluster.Options{Binary: u.old, Nodes: 3, Shards: manyShards, Dir: t.TempDir(),
		Policies: clusterPolicies})
	r := mustCount(t, u.c, politeClients(seed(t)), u.roll)
	failsNobody(t, r)
	t.Logf("%d requests, %d failed; %d planned restarts, %v with both builds; limit %d, admitted %d; "+
		"%d keys full, %d lost, %d doubled", r.Operations, max(r.Missed, r.Unknown), u.restarts,
		u.mixed.Round(time.Second), r.Limit, r.Admitted, r.KeysFull, r.Lost, r.Doubled)
	u.hasWritten(shard.LevelNewest)
	u.refusesTheWayBack()
	u.admitsNoStranger()
}

// refusesTheWayBack checks that the former build does not start on a directory of the new level, and does not change
// it.
func (u *upgrade) refusesTheWayBack() {
	u.Helper()
	ctx := within(u.T, 60*time.Second)
	if err := u.c.Terminate(ctx, 2); err != nil {
		u.Fatal(err)
	}
	u.c.UseBinary(2, u.old)
	if err := u.c.Restart(2); err != nil {
		u.Fatal(err)
	}
	u.c.MayEnd(2)
	code, err := u.c.AwaitExit(ctx, 2)
	if err != nil || code == 0 {
		u.Fatalf("the former build on a directory of the newest level: exit code %d, %v", code, err)
	}
	want := fmt.Sprintf("written at level %d, this binary knows %d: start", shard.LevelNewest, shard.LevelFirst)
	if said := u.c.Logs(); !strings.Contains(said, want) {
		u.Errorf("the former build on a directory of the newest level does not say %q", want)
	}
	u.c.UseBinary(2, u.new)
	if err := u.c.Restart(2); err != nil {
		u.Fatal(err)
	}
	if err := u.c.AwaitReady(ctx); err != nil {
		u.Error(err)
	}
}

// admitsNoStranger checks that a node of the former build with an empty directory stops, and is not registered.
func (u *upgrade) admitsNoStranger() {
	u.Helper()
	i, err := u.c.Add() // with the binary that the cluster was started with
	if err != nil {
		u.Fatal(err)
	}
	u.c.MayEnd(i)
	ctx := within(u.T, 60*time.Second)
	code, err := u.c.AwaitExit(ctx, i)
	if err != nil || code == 0 {
		u.Fatalf("a node of the former build joins: exit code %d, %v", code, err)
	}
	want := fmt.Sprintf("the cluster is at level %d, this binary knows %d: start", shard.LevelNewest, shard.LevelFirst)
	if said := u.c.Logs(); !strings.Contains(said, want) {
		u.Errorf("a node of the former build does not say %q", want)
	}
	s, err := statusOf(ctx, u.c.Addr(0))
	if err != nil {
		u.Fatal(err)
	}
	for _, n := range s.Nodes {
		if n.ID == u.c.Name(i) {
			u.Errorf("a node of the former build is registered at the newest level")
		}
	}
	if err := awaitStatus(u.T, u.c.Addr(0), 30*time.Second,
		votersOn(u.c.Name(0), u.c.Name(1), u.c.Name(2))); err != nil {
		u.Error(err) // a shard may still be moving to the node that was restarted last
	}
}
