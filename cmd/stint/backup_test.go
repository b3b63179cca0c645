package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// A node that has no replica of a shard sends the command on to those that have one, which speak TLS as it does.
func TestOtherNodesAreAskedForABackupAsTheFirstIs(t *testing.T) {
	status := &stintv1.StatusResponse{
		Nodes: []*stintv1.Node{{Id: "a", ApiAddr: "10.0.0.1:7400", Alive: true},
			{Id: "b", ApiAddr: "10.0.0.2:7400", Alive: true}, {Id: "c", ApiAddr: "10.0.0.3:7400"}},
		Shards: []*stintv1.Shard{{Name: "0", Replicas: []*stintv1.Replica{{Node: "b"}, {Node: "c"}}},
			{Name: "1", Replicas: []*stintv1.Replica{{Node: "a"}}}},
	}
	for _, c := range []struct{ addr, want string }{
		{"https://stint.example.com:7400", "https://10.0.0.2:7400"},
		{"http://127.0.0.1:7400", "http://10.0.0.2:7400"},
	} {
		b := &backupRun{remote: remote{Addr: c.addr}, status: status}
		if got, want := b.sources(t.Context(), "0"), []string{c.addr, c.want}; !slices.Equal(got, want) {
			t.Errorf("from %s: %q, want %q", c.addr, got, want)
		}
	}
}

// ofShards is the table of a cluster with that many shards.
func ofShards(n uint32) *placement.Table {
	return placement.NewTable("c", []placement.Node{{ID: "n"}}, n, 1)
}

// A slot has left the one shard that is pictured, or shards were founded meanwhile: the file would be one that no
// restore takes, so there is none.
func TestABackupThatLacksASlotIsNone(t *testing.T) {
	f := &fakeCluster{picture: []byte("a picture"), table: ofShards(1), status: &stintv1.StatusResponse{ClusterId: "c",
		Shards: []*stintv1.Shard{{Id: 0, Name: "0"}, {Id: uint32(shard.System), Name: "system"}}}}
	backup := func() (code int, said string) {
		file := filepath.Join(t.TempDir(), "backup")
		code, _, said = stint("backup", file, "--addr", f.serve(t))
		if _, missing := os.Stat(file); (missing == nil) != (code == 0) {
			t.Errorf("exit code %d, and of the file: %v", code, missing)
		}
		return code, said
	}
	if code, said := backup(); code != 0 {
		t.Errorf("nothing has moved: %d %s", code, said)
	}
	f.slots = []byte("\x01\x02\x0b\x01\x04\x05\x01\x00\x00\x00\x00\x00\x00\x00") // slot 258 is on shard 1
	if code, said := backup(); code != 1 || !strings.Contains(said, "1 of them are in no picture: make it again") {
		t.Errorf("a slot has moved: %d %s", code, said)
	}
	f.slots, f.table = nil, ofShards(3)
	if code, said := backup(); code != 1 || !strings.Contains(said, "had 1 shard when") ||
		!strings.Contains(said, "has 3 now: make it again") {
		t.Errorf("shards were founded: %d %s", code, said)
	}
}

// Only what is old by the cluster's clock is deleted: by that of the machine of the backups, which may be wrong, all of
// them might be.
func TestAWrongClockDeletesNoBackups(t *testing.T) {
	var picture bytes.Buffer
	if _, err := shard.NewState(0).Snapshot().WriteTo(&picture); err != nil {
		t.Fatal(err)
	}
	f := &fakeCluster{picture: picture.Bytes(), table: ofShards(1), status: &stintv1.StatusResponse{ClusterId: "c",
		Shards: []*stintv1.Shard{{Id: 0, Name: "0"}, {Id: uint32(shard.System), Name: "system"}}}}
	begun := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // long before now
	for cluster, stays := range map[time.Time]bool{begun.Add(10 * day): true, begun.Add(20 * day): false,
		begun.AddDate(100, 0, 0): false} {
		dir := t.TempDir()
		old := backupDir(dir).file(begun)
		out, err := os.Create(old)
		if err != nil {
			t.Fatal(err)
		}
		w, err := backup.NewWriter(out, backup.Header{Cluster: "c", Shards: 1, Begun: begun.UnixMicro()})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []shard.ID{0, shard.System} {
			if err := w.State(shard.NewState(id)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Finish(), out.Close()); err != nil {
			t.Fatal(err)
		}
		f.at = limit.Time(cluster.UnixMicro())
		code, _, said := stint("backup", "--dir", dir, "--keep", "14d", "--addr", f.serve(t))
		if _, gone := os.Stat(old); code != 0 || (gone == nil) != stays {
			t.Errorf("by the cluster's clock it is %v: exit code %d, of the old backup: %v\n%s",
				cluster, code, gone, said)
		}
	}
}
