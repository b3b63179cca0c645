package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/recovery"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

const recoverKeys = 12 // on all shards

func recoverKey(n int) string { return fmt.Sprint("key-", n) }

// stoppedTrio is three nodes that have counted and were stopped. hold is open. Their disks are copied before they are
// changed.
type stoppedTrio struct {
	*trio
	table  *placement.Table
	held   shard.Target // an open hold of one unit of login by "held"
	backup []byte       // of before a key was counted
}

func newStoppedTrio(t *testing.T) *stoppedTrio {
	t.Helper()
	s := &stoppedTrio{trio: trioToBe(t, 4)}
	if err := os.WriteFile(s.configs[0].PoliciesFile, []byte(restoredPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range s.nodes {
		s.configs[i].World.FS = nil // its disk is read
		s.start(i)
	}
	s.ready(0, 1, 2)
	s.await("three voters each", atRest(3)) // no shard is about to be handed over
	s.backup = backedUp(t, s.nodes[0])
	for n := range recoverKeys {
		for _, policy := range []string{"login", "kept", "stock"} {
			s.ask(n%3, shard.Check, policy, recoverKey(n))
		}
	}
	held := s.nodes[0].Decide(t.Context(), []shard.Request{{Op: shard.Reserve, Namespace: shard.DefaultNamespace,
		Entries: []shard.Entry{{Policy: "login", Key: "held", Cost: 1}}, Hold: &shard.HoldTerms{TTL: 60_000_000}}})[0]
	if held.Err != nil {
		t.Fatal(held.Err)
	}
	s.held = shard.Target{Hold: true, Position: held.Decision.Position, Index: held.Decision.Index,
		DecidedAt: held.Decision.DecidedAt}
	s.await("three voters each", atRest(3))
	s.table = s.nodes[0].view.newestTable()
	s.stop(0, 1, 2)
	return s
}

// disks copies the data directories of some of the nodes.
func (s *stoppedTrio) disks(t *testing.T, nodes ...int) (dirs []string) {
	t.Helper()
	for _, i := range nodes {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("disk-", i))
		if err := os.CopyFS(dir, os.DirFS(s.configs[i].DataDir)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func nobodyAnswers(context.Context, string) bool { return false }

// recovered reads disks; no node runs.
func recovered(t *testing.T, config recovery.Config) *recovery.Recovery {
	t.Helper()
	config.Actor, config.Version, config.Now, config.Answers = "ann", "test", time.Now(), nobodyAnswers
	r, err := recovery.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func written(t *testing.T, r *recovery.Recovery) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := r.Write(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// bytesOf returns what a directory holds.
func bytesOf(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			var content []byte
			if !d.IsDir() {
				if content, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			found[path] = fmt.Sprintf("%v %d %x", info.Mode(), len(content), sha256.Sum256(content))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// restoredNode starts a node on a restored backup.
func restoredNode(t *testing.T, file []byte) (*Node, *restore.Restore) {
	t.Helper()
	config := onRealDisk(t)
	config.DataDir = filepath.Join(t.TempDir(), "restored")
	r := planned(t, file, restore.Config{DataDir: config.DataDir, NodeID: "r1", Actor: "bob"})
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	n := start(t, config)
	t.Cleanup(func() { stop(t, n) })
	return n, r
}

func restoreRecordOf(t *testing.T, n *Node) (record restore.Record) {
	t.Helper()
	all, err := n.documents.fetchAll(t.Context(), restore.Document)
	if err == nil {
		err = json.Unmarshal(all[0].Body, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// TestRecoverFromDisks: what a majority has is exact, and the cluster made of it continues where the old one stopped.
// What a minority has is not written unless somebody accepts the loss, and then counts as full. The disks are only
// read.
func TestRecoverFromDisks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoppedTrio(t)
		for _, nodes := range [][]int{{0, 1, 2}, {0, 2}, {1, 2}} {
			part(t, fmt.Sprint("exact of ", nodes), func(t *testing.T) {
				dirs := s.disks(t, nodes...)
				before := bytesOf(t, dirs...)
				r := recovered(t, recovery.Config{Inputs: dirs})
				if !r.Exact || r.Fills || len(r.Ends) > 0 || len(r.Shards) != 5 || r.Refusal() != nil {
					t.Fatalf("recovered %+v", r.Shards)
				}
				file := written(t, r)
				if !maps.Equal(before, bytesOf(t, dirs...)) {
					t.Error("the disks were changed")
				}
				n, restore := restoredNode(t, file)
				if n.view.newestTable().Cluster == s.table.Cluster || len(restore.Ends) > 0 {
					t.Errorf("the cluster is %s, and denies %v", n.view.newestTable().Cluster, restore.Ends)
				}
				for i := range recoverKeys {
					for _, policy := range []string{"login", "kept", "stock"} {
						if got := spent(t, n, policy, recoverKey(i)); got != 4 {
							t.Errorf("%s of %s: %d more are admitted, want 4", recoverKey(i), policy, got)
						}
					}
				}
				if got := spent(t, n, "login", "unknown"); got != 5 {
					t.Errorf("%d of an unknown key are admitted, want 5", got)
				}
				if got := spent(t, n, "login", "held"); got != 4 {
					t.Errorf("%d beside a hold are admitted, want 4", got)
				}
				settled := n.Decide(t.Context(), []shard.Request{{Op: shard.Settle, Namespace: shard.DefaultNamespace,
					Entries:    []shard.Entry{{Policy: "login", Key: "held", Cost: 1}},
					Settlement: &shard.Settlement{Action: shard.ActionCancel, Target: s.held}}})[0]
				if got := spent(t, n, "login", "held"); settled.Err != nil || got != 1 {
					t.Errorf("%d are admitted when the hold is cancelled (%v), want 1", got, settled.Err)
				}
				record := restoreRecordOf(t, n)
				if !record.Exact || record.Recovery == nil || record.Recovery.Actor != "ann" ||
					len(record.Recovery.Inputs) != len(nodes) {
					t.Errorf("the record is %+v", record)
				}
				audit := n.Decide(t.Context(), []shard.Request{{Op: shard.ReadAudit}})[0]
				if audit.Err != nil || len(audit.Decision.System.Audit) == 0 ||
					!strings.Contains(audit.Decision.System.Audit[0].Before, "recovered by ann from node n") ||
					!strings.Contains(audit.Decision.System.Audit[0].Before, "nothing is lost") {
					t.Errorf("the audit log says %+v, %v", audit.Decision, audit.Err)
				}
			})
		}
		part(t, "of a minority", func(t *testing.T) {
			dirs := s.disks(t, 1)
			before := bytesOf(t, dirs...)
			r := recovered(t, recovery.Config{Inputs: dirs})
			for _, d := range r.Shards {
				if d.Exact || d.Chosen == "" ||
					!strings.Contains(d.Lost, "of 3 voters of the newest configuration, 2 are missing") {
					t.Errorf("%+v", d)
				}
			}
			if err := r.Write(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "--accept-loss") {
				t.Errorf("what is not exact was written: %v", err)
			}
			if len(r.Ends) == 0 || !r.Fills {
				t.Error("nobody is told how long limits will deny")
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			file := written(t, recovered(t, recovery.Config{Inputs: dirs, AcceptLoss: true}))
			if !maps.Equal(before, bytesOf(t, dirs...)) {
				t.Error("the disk was changed")
			}
			n, restore := restoredNode(t, file)
			if len(restore.Ends) != len(r.Ends) {
				t.Errorf("the ends are %v, and were to be %v", restore.Ends, r.Ends)
			}
			for policy, want := range map[string]int{"login": 0, "kept": 4, "stock": 4} {
				if got := spent(t, n, policy, recoverKey(1)); got != want {
					t.Errorf("%s: %d more are admitted, want %d", policy, got, want)
				}
			}
			if got := spent(t, n, "login", "unknown"); got != 0 {
				t.Errorf("%d of an unknown key are admitted at once", got)
			}
			if record := restoreRecordOf(t, n); record.Exact || record.Recovery == nil ||
				record.Recovery.Shards[0].Lost == "" {
				t.Errorf("the record is %+v", record)
			}
		})
		part(t, "of parts", func(t *testing.T) {
			var parts []string
			for _, dir := range s.disks(t, 0, 1) {
				var part bytes.Buffer
				one := recovered(t, recovery.Config{Inputs: []string{dir}})
				if err := one.WritePart(&part); err != nil {
					t.Fatal(err)
				}
				name := filepath.Join(t.TempDir(), "part")
				if err := os.WriteFile(name, part.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				parts = append(parts, name)
				flipped := slices.Clone(part.Bytes())
				flipped[len(flipped)/2] ^= 1
				if err := os.WriteFile(name+"-flipped", flipped, 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := recovery.Open(t.Context(),
					recovery.Config{Inputs: []string{name + "-flipped"}, Now: time.Now()}); err == nil {
					t.Error("a flipped bit in a part was not noticed")
				}
			}
			r := recovered(t, recovery.Config{Inputs: parts})
			whole := recovered(t, recovery.Config{Inputs: s.disks(t, 0, 1)})
			for i := range r.Shards {
				if !r.Shards[i].Exact || r.Shards[i].Chosen != whole.Shards[i].Chosen ||
					r.Shards[i].Replicas[0].Sum != whole.Shards[i].Replicas[0].Sum {
					t.Errorf("of parts %+v, of the disks %+v", r.Shards[i], whole.Shards[i])
				}
			}
			got, want := written(t, r), written(t, whole)
			if a, b := mustRead(t, got), mustRead(t, want); a.Data[2].Sum() != b.Data[2].Sum() ||
				a.System.Sum() != b.System.Sum() || !a.DataExact() {
				t.Error("parts make another backup than the disks")
			}
			if err := r.WritePart(new(bytes.Buffer)); err == nil {
				t.Error("a part is made of two parts")
			}
		})
	})
}

func mustRead(t *testing.T, file []byte) *backup.Backup {
	t.Helper()
	b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onDisk changes the stores of a stopped node.
func onDisk(t *testing.T, dir string, change func(*raftfsm.Stores) error) {
	t.Helper()
	stores, err := raftfsm.OpenStores(dir, raftfsm.StoresConfig{Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := change(stores); err != nil {
		t.Fatal(err)
	}
	if err := stores.Close(); err != nil {
		t.Fatal(err)
	}
}

// convict convicts a disk's replica of a shard.
func convict(t *testing.T, dir string, id shard.ID) (convicted string) {
	t.Helper()
	onDisk(t, dir, func(s *raftfsm.Stores) error {
		for _, replica := range s.Groups() {
			if replica.Shard == id {
				convicted = replica.Name(s.Identity().Node)
				return s.Convict(replica, raftfsm.Conviction{Why: "a test", At: time.Now()})
			}
		}
		return fmt.Errorf("%s has no replica of shard %v", dir, id)
	})
	return convicted
}

// TestSuspectedReplicasAreNotRecovered: not the convicted one, nor those of a torn log. What is left decides on
// exactness.
func TestSuspectedReplicasAreNotRecovered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoppedTrio(t)
		part(t, "convicted", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			convicted := convict(t, dirs[1], 2)
			r := recovered(t, recovery.Config{Inputs: dirs})
			if d := r.Shards[2]; d.Chosen == convicted || !d.Exact {
				t.Errorf("%+v", d)
			}
			two := recovered(t, recovery.Config{Inputs: s.disks(t, 0)})
			if two.Exact {
				t.Error("one disk of three is exact")
			}
			r.Close()
			if d := recovered(t, recovery.Config{Inputs: dirs[:2]}).Shards[2]; d.Exact || d.Chosen == convicted ||
				d.Chosen == "" {
				t.Errorf("of two disks, one of them convicted: %+v", d)
			}
		})
		part(t, "torn", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			tear(t, dirs[0])
			r := recovered(t, recovery.Config{Inputs: dirs})
			for _, d := range r.Shards {
				if !d.Exact || strings.HasPrefix(d.Chosen, "n1/") {
					t.Errorf("%+v", d)
				}
			}
			r.Close()
			for _, d := range recovered(t, recovery.Config{Inputs: dirs[:2]}).Shards {
				if d.Exact || strings.HasPrefix(d.Chosen, "n1/") {
					t.Errorf("of two disks, one of them torn: %+v", d)
				}
			}
			alone := recovered(t, recovery.Config{Inputs: s.disks(t, 0), AcceptLoss: true})
			written(t, alone)
		})
		part(t, "only a torn one is left", func(t *testing.T) {
			dirs := s.disks(t, 0)
			tear(t, dirs[0])
			r := recovered(t, recovery.Config{Inputs: dirs, AcceptLoss: true})
			if r.Shards[4].Chosen == "" || r.Exact || !strings.Contains(r.Shards[4].Lost, "forgot nothing") {
				t.Errorf("%+v", r.Shards[4])
			}
			if n, _ := restoredNode(t, written(t, r)); spent(t, n, "login", recoverKey(3)) != 0 {
				t.Error("what a torn log may have forgotten is admitted")
			}
		})
		part(t, "nothing of a shard is left", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			for _, dir := range dirs {
				convict(t, dir, 3)
			}
			r := recovered(t, recovery.Config{Inputs: dirs, AcceptLoss: true})
			if r.Shards[3].Chosen != "" || r.Shards[3].Exact || !r.Shards[2].Exact {
				t.Errorf("%+v", r.Shards[3])
			}
			n, _ := restoredNode(t, written(t, r))
			for i := range recoverKeys {
				if got := spent(t, n, "login", recoverKey(i)); got != 0 {
					t.Errorf("%s: %d are admitted", recoverKey(i), got)
				}
			}
			for _, replica := range n.replicas.all() {
				replica.group.View(func(s *shard.State) {
					if s.Epoch() < 1<<40 {
						t.Errorf("shard %v is at epoch %d, which the lost history may have had",
							replica.Shard, s.Epoch())
					}
				})
			}
		})
		part(t, "nothing of the system shard is left", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			for _, dir := range dirs {
				convict(t, dir, shard.System)
			}
			r := recovered(t, recovery.Config{Inputs: dirs, AcceptLoss: true})
			if err := r.Write(new(bytes.Buffer)); err == nil ||
				!strings.Contains(err.Error(), "no replica of the system shard is left") {
				t.Errorf("policies out of nothing: %v", err)
			}
			r.Close()
			name := filepath.Join(t.TempDir(), "stint.backup")
			if err := os.WriteFile(name, s.backup, 0o600); err != nil {
				t.Fatal(err)
			}
			r = recovered(t, recovery.Config{Inputs: dirs, AcceptLoss: true, Backup: name})
			if r.Exact || r.Fills || !strings.Contains(r.Shards[4].Lost, "backup of") {
				t.Errorf("%+v", r.Shards[4])
			}
			n, _ := restoredNode(t, written(t, r))
			if got := spent(t, n, "login", recoverKey(1)); got != 4 {
				t.Errorf("%d more are admitted, want 4", got)
			}
		})
	})
}

// tear cuts the end off the newest log file, as a disk does that lost what it had fsynced.
func tear(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal("there is no log", err)
	}
	newest := slices.Max(logs)
	content, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(newest, int64(len(bytes.TrimRight(content, "\x00")))-1); err != nil {
		t.Fatal(err)
	}
}

// TestRecoverRefusesWhatDoesNotBelongTogether: and what still runs.
func TestRecoverRefusesWhatDoesNotBelongTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoppedTrio(t)
		dirs := s.disks(t, 0, 1)
		other := onRealDisk(t)
		other.Shards = 4
		stop(t, start(t, other))
		one, _ := restoredNode(t, s.backup)
		fresh := t.TempDir()
		refused := func(want string, config recovery.Config) {
			t.Helper()
			config.Now = time.Now()
			if config.Answers == nil {
				config.Answers = nobodyAnswers
			}
			r, err := recovery.Open(t.Context(), config)
			if err == nil {
				r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, and not %s", err, want)
			}
		}
		refused("of one cluster only", recovery.Config{Inputs: []string{dirs[0], other.DataDir}})
		refused("both of node n1", recovery.Config{Inputs: []string{dirs[0], s.disks(t, 0)[0]}})
		refused("stable.db", recovery.Config{Inputs: []string{fresh}})
		refused("no data directory", recovery.Config{})
		refused("in use by another process", recovery.Config{Inputs: []string{one.config.DataDir}})
		for _, address := range []string{s.configs[2].APIAddr, s.configs[2].PeerAddr} {
			if address == "" {
				t.Fatal("a node has no address")
			}
		}
		third := s.table.Node("n3")
		for _, address := range []string{third.APIAddr, third.PeerAddr} {
			refused("node n3 answers at "+address, recovery.Config{Inputs: dirs,
				Answers: func(_ context.Context, asked string) bool { return asked == address }})
		}
		s.start(2) // alone it serves nothing, and might be joined by others
		defer s.stop(2)
		live := s.nodes[2]
		refused("answers at ", recovery.Config{Inputs: dirs, Answers: func(ctx context.Context, address string) bool {
			if address != third.APIAddr {
				return false
			}
			conn, err := dialerOf(live)(ctx, "tcp", live.APIAddr()) // it listens elsewhere since
			if err == nil {
				conn.Close()
			}
			return err == nil
		}})
		name := filepath.Join(t.TempDir(), "stint.backup")
		if err := os.WriteFile(name, s.backup, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("and the disks 4 of", recovery.Config{Inputs: []string{other.DataDir}, Backup: name})
		refused("no part", recovery.Config{Inputs: []string{name}})
	})
}

// TestTokensAfterARecovery: of an exact system shard they are whole; else no token that may be revoked administers.
func TestTokensAfterARecovery(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		bucket := n.tokens.buckets[auth.Bucket("root")]
		records := []auth.Record{{Name: "root", Grants: []auth.Grant{auth.Everything()}}}
		if err := bucket.found(t.Context(), nil, &records); err != nil {
			t.Fatal(err)
		}
		file := backedUp(t, n)
		stop(t, n)
		for _, exact := range []bool{true, false} {
			b := mustRead(t, file)
			b.Recovery = &backup.Recovery{Actor: "ann"}
			for range b.Data {
				b.Recovery.Shards = append(b.Recovery.Shards, backup.RecoveredFrom{Exact: true})
			}
			b.Recovery.Shards = append(b.Recovery.Shards, backup.RecoveredFrom{Exact: exact})
			r, err := restore.Plan(b, restore.Config{Now: time.Now(), Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			bucket, err := shard.ReadDocument(r.System, auth.Bucket("root"))
			if err != nil {
				t.Fatal(err)
			}
			records, err := auth.DecodeBucket(bucket.Body)
			if err != nil || len(records) != 1 {
				t.Fatal(records, err)
			}
			if whole := len(records[0].Grants) == 1; whole != exact {
				t.Errorf("exact %v: the token may %v", exact, records[0].Grants)
			}
			if len(r.Ends) > 0 {
				t.Errorf("exact %v: no count is lost, and yet %v", exact, r.Ends)
			}
		}
	})
}

// TestTheNewestPoliciesAreRecovered: a data shard may have adopted policies that what is left of the system shard does
// not know.
func TestTheNewestPoliciesAreRecovered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		file := backedUp(t, n)
		stop(t, n)
		b := mustRead(t, file)
		text := []byte("policies: {newer: {limits: [{name: l, quota: 3, lifetime: {}}]}}\n")
		adopting := b.Data[1]
		at := shard.Stamp{Position: shard.Position{Shard: 1, Epoch: adopting.Epoch(), Seq: adopting.Seq() + 1},
			Now: adopting.Time()}
		revision := policy.Revision{Version: 7, Text: text, Set: policy.NewSet(nil)}
		entry := shard.EncodeBatch(at, shard.Adopt(adopting, nil, revision, at))
		if outcome, err := adopting.Install(entry, adopting.Epoch()+1000, adopting.Term()); err != nil ||
			outcome.Dropped != shard.NotDropped {
			t.Fatal(outcome, err)
		}
		r, err := restore.Plan(b, restore.Config{Now: time.Now(), Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		document, err := shard.ReadDocument(r.System, placement.PoliciesDocument)
		if _, known := r.Policies.Lookup("newer"); !known || err != nil || !bytes.Equal(document.Body, text) ||
			document.Version <= 7 {
			t.Errorf("the policies are %q of version %d, %v", document.Body, document.Version, err)
		}
	})
}
