package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

const restoredPolicies = `
policies:
  login:
    limits: [{name: hour, quota: 5, fixed_window: {period: 1h, anchor: first_hit}}]
  short:
    limits: [{name: log, quota: 5, sliding_log: {period: 2s}}]
  kept:
    limits: [{name: hour, quota: 5, fixed_window: {period: 1h, anchor: first_hit}, on_recovery: keep}]
  stock:
    limits: [{name: total, quota: 5, lifetime: {}}]
`

// backedUp makes a backup of a running cluster, shard by shard, as stint backup does.
func backedUp(t *testing.T, n *Node) []byte {
	t.Helper()
	var file bytes.Buffer
	table := n.view.newestTable()
	w, err := backup.NewWriter(&file, backup.Header{Cluster: table.Cluster, Release: "test", Level: n.view.level(),
		Shards: table.Shards, Begun: time.Now().UnixMicro()})
	if err != nil {
		t.Fatal(err)
	}
	for id, more := w.Next(); more; id, more = w.Next() {
		picture, err := n.admin.Picture(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Section(func(out io.Writer) error { _, err := picture.WriteTo(out); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func planned(t *testing.T, file []byte, config restore.Config) *restore.Restore {
	t.Helper()
	b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if config.Now.IsZero() {
		config.Now = time.Now()
	}
	config.Version, config.Margin = "test", time.Millisecond
	r, err := restore.Plan(b, config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spent asks for units until they are denied, and returns how many were admitted.
func spent(t *testing.T, n *Node, policy, key string) (admitted int) {
	t.Helper()
	for range 20 {
		r := ask(n, shard.Check, policy, key)
		if r.Err != nil {
			t.Fatalf("%s %s: %v", policy, key, r.Err)
		}
		if !r.Decision.Allowed {
			return admitted
		}
		admitted++
	}
	return admitted
}

// TestThreeNodesAreRestoredToOneWhichGrowsAgain: a backup of a running cluster is restored to another one. The others
// join its only node. What was admitted before and after the backup, and after the restore, is together never more than
// the limits.
func TestThreeNodesAreRestoredToOneWhichGrowsAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 4)
		if err := os.WriteFile(c.configs[0].PoliciesFile, []byte(restoredPolicies), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		const keys = 12 // on all shards
		key := func(n int) string { return fmt.Sprint("key-", n) }
		for n := range keys {
			for _, policy := range []string{"login", "short", "kept", "stock"} {
				c.ask(n%3, shard.Check, policy, key(n))
			}
		}
		file := backedUp(t, c.nodes[1])
		cluster := c.nodes[0].view.newestTable().Cluster
		for n := range keys {
			c.ask(n%3, shard.Check, "login", key(n)) // lost
		}
		c.stop(0, 1, 2)

		dir := filepath.Join(t.TempDir(), "restored")
		r := planned(t, file, restore.Config{DataDir: dir, NodeID: "r1"})
		if r.Backup.Cluster != cluster || len(r.Data) != 4 {
			t.Errorf("planned %+v", r)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("planning touched the disk: %v", err)
		}
		if err := r.Write(); err != nil {
			t.Fatal(err)
		}
		after := trioToBe(t, 4)
		for i := range after.configs {
			config := &after.configs[i]
			config.NodeID, config.BootstrapExpect = fmt.Sprint("r", i+1), 1
		}
		after.configs[0].DataDir, after.configs[0].Join, after.configs[0].World.FS = dir, nil, nil
		after.start(0)
		after.ready(0)
		one := after.nodes[0]
		table := one.view.newestTable()
		if table.Cluster == cluster || table.Cluster != r.Cluster || one.view.level() != shard.LevelNewest {
			t.Errorf("the cluster is %s, at level %d", table.Cluster, one.view.level())
		}
		await.Until(t, "a short window rolls", func() bool { return spent(t, one, "short", "first") > 0 })
		for n := range keys {
			for policy, want := range map[string]int{"login": 0, "kept": 4, "stock": 4} {
				if got := spent(t, one, policy, key(n)); got != want {
					t.Errorf("%s of %s: %d more are admitted, want %d", key(n), policy, got, want)
				}
			}
			// a short window has rolled
			for policy, want := range map[string]int{"login": 0, "short": 5, "kept": 5, "stock": 5} {
				if got := spent(t, one, policy, "unknown-"+key(n)); got != want {
					t.Errorf("an unknown key of %s: %d are admitted, want %d", policy, got, want)
				}
			}
		}
		for _, replica := range one.replicas.all() {
			replica.group.View(func(s *shard.State) {
				if s.Epoch() < 1<<40 {
					t.Errorf("shard %v is at epoch %d, which the lost history may have had", replica.Shard, s.Epoch())
				}
			})
		}
		all, err := one.documents.fetchAll(t.Context(), restore.Document)
		var record restore.Record
		if err != nil || json.Unmarshal(all[0].Body, &record) != nil || record.At != int64(r.At) ||
			record.Cluster != cluster || record.Exact {
			t.Errorf("the record of the restore is %v, %v", all, err)
		}
		for i := 1; i < 3; i++ {
			after.start(i)
			after.ready(i)
		}
		after.await("three voters each", atRest(3))
		for i := range 3 {
			if got := spent(t, after.nodes[i], "login", key(i)); got != 0 {
				t.Errorf("node %d admits %d", i+1, got)
			}
		}
		if again := backedUp(t, after.nodes[2]); len(again) == 0 {
			t.Error("no backup of a restored cluster")
		}
	})
}

// TestARestoreIsDecodedBeforeAnythingIsWritten: what is wrong with it is told first.
func TestARestoreIsDecodedBeforeAnythingIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		if err := os.WriteFile(config.PoliciesFile, []byte(restoredPolicies), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		file := backedUp(t, n)
		stop(t, n)
		b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		for want, c := range map[string]restore.Config{
			`no policy "logon"`:     {Keep: []shard.Kept{{Policy: "logon"}}},
			`has no limit "minute"`: {Keep: []shard.Kept{{Policy: "login", Limit: "minute"}}},
			"node-id: ":             {NodeID: "a/b"},
		} {
			if _, err := restore.Plan(b, c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, and not %s", err, want)
			}
		}
		r := planned(t, file, restore.Config{DataDir: config.DataDir,
			Keep: []shard.Kept{{Policy: "short"}, {Policy: "~label", Limit: "x"}}})
		if err := r.Write(); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("written over a node's data: %v", err)
		}
		for _, end := range r.Ends {
			if kept := end.Policy == "kept" || end.Policy == "short"; end.Keeps != kept ||
				end.Never != (end.Policy == "stock") || (end.FullUntil > r.At) != (end.Policy == "login") {
				t.Errorf("%+v", end)
			}
		}
	})
}

// A backup with parts of different clusters, or of another number of shards, is refused: keys would be looked for on
// shards that do not have them, and count from zero.
func TestABackupOfAnotherNumberOfShardsIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		n := start(t, config)
		file := backedUp(t, n)
		stop(t, n)
		for name, change := range map[string]func(*backup.Backup){
			"fewer": func(b *backup.Backup) { b.Shards--; b.Data = b.Data[:b.Shards] },
			"more":  func(b *backup.Backup) { b.Shards++; b.Data = append(b.Data, b.Data[0]) },
			"other": func(b *backup.Backup) { b.Cluster = "another" },
		} {
			b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			change(b)
			if _, err := restore.Plan(b, restore.Config{Now: time.Now()}); err == nil ||
				!strings.Contains(err.Error(), "the backup's header has") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestABackupIsNotRecordedAsOfTheFuture: whoever makes backups may have a clock that is ahead. Later ones are noted
// all the same, so that everybody is told when there are none.
func TestABackupIsNotRecordedAsOfTheFuture(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		defer stop(t, n)
		const year = 365 * 24 * time.Hour
		record := func(begun, want time.Time) {
			t.Helper()
			if err := n.admin.RecordBackup(t.Context(), begun, 7); err != nil {
				t.Fatal(err)
			}
			if got := n.admin.lastBackup(); got.Sub(want).Abs() > time.Second {
				t.Errorf("begun at %v by its clock, the backup is of %v, want %v", begun, got, want)
			}
		}
		now := time.Now()
		record(now.Add(-time.Hour), now.Add(-time.Hour))
		record(now.Add(year), now)
		record(now.Add(-time.Minute), now)
		err := n.admin.backup.change(t.Context(), nil, func(known[backupRecord]) (*backupRecord, error) {
			return &backupRecord{now.Add(year).UnixMicro(), 7}, nil // as an older release noted it
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		record(time.Now(), time.Now())
	})
}
