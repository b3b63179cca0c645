package node

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// unpack unpacks a data directory that a release left behind.
func unpack(t *testing.T, release string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file, err := os.Open(filepath.Join("testdata", "releases", release+".data.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(zipped); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "data")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, entry.Name)
		if entry.FileInfo().IsDir() {
			err = os.MkdirAll(name, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The binary of 0.1.0 (061d6c2) left the directory: a lone node with one shard that had counted 9,000 checks on 50 keys, one
// after the other, and was killed. It has Pebble's log with its own end, votes and table in the bolt file, and a snapshot. It
// is opened as it is, carries the first level until the upgrade is finished, and has lost no count.
func TestADirectoryOf010IsOpenedAndUpgraded(t *testing.T) {
	t.Parallel()
	config := testConfig(t)
	config.DataDir = unpack(t, "0.1.0")
	config.AcceptTime = true // its last stamp is more than a day old
	n := start(t, config)
	counted := func(more uint64) {
		t.Helper()
		for i := range 50 {
			if r := ask(n, shard.Get, "stock", fmt.Sprint("user:", i)); r.Err != nil || r.Decision.Limits[0].Used != 180+more {
				t.Fatalf("user:%d: %+v, want %d used", i, r, 180+more)
			}
		}
	}
	counted(0)
	if n.view.level() != shard.LevelFirst || n.dir.stores.Level() != shard.LevelFirst {
		t.Errorf("it is at level %d, and its directory at %d", n.view.level(), n.dir.stores.Level())
	}
	finish(t, n)
	for i := range 50 {
		if r := ask(n, shard.Check, "stock", fmt.Sprint("user:", i)); r.Err != nil || !r.Decision.Allowed {
			t.Fatalf("user:%d: %+v", i, r)
		}
	}
	counted(1)
	stop(t, n)
	n = start(t, config)
	defer stop(t, n)
	counted(1)
	if n.view.level() != shard.LevelNewest || n.dir.stores.Level() != shard.LevelNewest {
		t.Errorf("after a restart it is at level %d, and its directory at %d", n.view.level(), n.dir.stores.Level())
	}
}

// finish brings a lone node to the newest level.
func finish(t *testing.T, n *Node) {
	t.Helper()
	var level shard.Level
	var err error
	await.Until(t, "the node has reported its levels, and the newest is finished", func() bool {
		level, err = n.admin.FinishUpgrade(t.Context())
		return err == nil && level == shard.LevelNewest
	}, &level, &err)
	await.Until(t, "the node is at the newest level", func() bool { return n.view.level() == shard.LevelNewest })
}

// What 0.1.0 left can be recovered too, and is not changed by it.
func TestADirectoryOf010IsRecovered(t *testing.T) {
	t.Parallel()
	dir := unpack(t, "0.1.0")
	before := bytesOf(t, dir)
	r := recovered(t, RecoverConfig{Inputs: []string{dir}})
	if !r.Exact {
		t.Fatalf("%+v", r.Shards)
	}
	b := mustRead(t, written(t, r))
	if !maps.Equal(before, bytesOf(t, dir)) {
		t.Error("the directory was changed")
	}
	config := testConfig(t)
	config.AcceptTime = true // its last stamp is more than a day old, and an exact shard's time goes on
	config.DataDir = filepath.Join(t.TempDir(), "restored")
	plan, err := PlanRestore(b, RestoreConfig{DataDir: config.DataDir, Now: time.Now(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Write(); err != nil {
		t.Fatal(err)
	}
	n := start(t, config)
	defer stop(t, n)
	for i := range 50 {
		if r := ask(n, shard.Get, "stock", fmt.Sprint("user:", i)); r.Err != nil || r.Decision.Limits[0].Used != 180 {
			t.Fatalf("user:%d: %+v, want 180 used", i, r)
		}
	}
}
