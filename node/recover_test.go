package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

const recoverKeys = 12 // on all shards

func recoverKey(n int) string { return fmt.Sprint("key-", n) }

// stoppedTrio is three nodes that have counted and were stopped. hold is open. Their disks are copied before they are changed.
type stoppedTrio struct {
	*trio
	cluster string
	held    shard.Target // an open hold of one unit of login by "held"
	backup  []byte       // of before a key was counted
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
	s.cluster = s.nodes[0].view.newestTable().Cluster
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
	s.held = shard.Target{Hold: true, Position: held.Decision.Position, Index: held.Decision.Index, DecidedAt: held.Decision.DecidedAt}
	s.await("three voters each", atRest(3))
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

// recovered reads disks; nobody answers.
func recovered(t *testing.T, config RecoverConfig) *Recovery {
	t.Helper()
	config.Actor, config.Version, config.Now, config.answers = "ann", "test", time.Now(), nobodyAnswers
	r, err := PlanRecovery(t.Context(), config)
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

func written(t *testing.T, r *Recovery) []byte {
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
func restoredNode(t *testing.T, file []byte) (*Node, *Restore) {
	t.Helper()
	config := onRealDisk(t)
	config.DataDir = filepath.Join(t.TempDir(), "restored")
	r := planned(t, file, RestoreConfig{DataDir: config.DataDir, NodeID: "r1", Actor: "bob"})
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	n := start(t, config)
	t.Cleanup(func() { stop(t, n) })
	return n, r
}

func restoreRecordOf(t *testing.T, n *Node) (record RestoreRecord) {
	t.Helper()
	all, err := n.documents.fetchAll(t.Context(), RestoreDocument)
	if err == nil {
		err = json.Unmarshal(all[0].Body, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// TestRecoverFromDisks: what a majority has is exact, and the cluster made of it continues where the old one stopped. What a
// minority has is not written unless somebody accepts the loss, and then counts as full. The disks are only read.
func TestRecoverFromDisks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoppedTrio(t)
		for _, nodes := range [][]int{{0, 1, 2}, {0, 2}, {1, 2}} {
			part(t, fmt.Sprint("exact of ", nodes), func(t *testing.T) {
				dirs := s.disks(t, nodes...)
				before := bytesOf(t, dirs...)
				r := recovered(t, RecoverConfig{Inputs: dirs})
				if !r.Exact || r.Fills || len(r.Ends) > 0 || len(r.Shards) != 5 || r.Refusal() != nil {
					t.Fatalf("recovered %+v", r.Shards)
				}
				file := written(t, r)
				if !maps.Equal(before, bytesOf(t, dirs...)) {
					t.Error("the disks were changed")
				}
				n, restore := restoredNode(t, file)
				if n.view.newestTable().Cluster == s.cluster || len(restore.Ends) > 0 {
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
				if !record.Exact || record.Recovery == nil || record.Recovery.Actor != "ann" || len(record.Recovery.Inputs) != len(nodes) {
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
			r := recovered(t, RecoverConfig{Inputs: dirs})
			for _, d := range r.Shards {
				if d.Exact || d.Chosen == "" || !strings.Contains(d.Lost, "of 3 voters of the newest configuration, 2 are missing") {
					t.Errorf("%+v", d)
				}
			}
			if err := r.Write(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "--accept-loss") {
				t.Errorf("what is not exact was written: %v", err)
			}
			if len(r.Ends) == 0 || !r.Fills {
				t.Error("nobody is told how long limits will deny")
			}
			r.config.AcceptLoss = true
			file := written(t, r)
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
			if record := restoreRecordOf(t, n); record.Exact || record.Recovery == nil || record.Recovery.Shards[0].Lost == "" {
				t.Errorf("the record is %+v", record)
			}
		})
		part(t, "of parts", func(t *testing.T) {
			var parts []string
			for _, dir := range s.disks(t, 0, 1) {
				var part bytes.Buffer
				one := recovered(t, RecoverConfig{Inputs: []string{dir}})
				if err := one.WritePart(&part); err != nil {
					t.Fatal(err)
				}
				name := filepath.Join(t.TempDir(), "part")
				if err := os.WriteFile(name, part.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				parts = append(parts, name)
				one.remnants[0].about.Read -= 3600e6
				stale := new(bytes.Buffer)
				if err := one.WritePart(stale); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name+"-stale", stale.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := PlanRecovery(t.Context(), RecoverConfig{Inputs: []string{name + "-stale", s.disks(t, 2)[0]}, Now: time.Now()})
				if err == nil || !strings.Contains(err.Error(), "make it again") {
					t.Errorf("a part from before the cluster stopped: %v", err)
				}
				flipped := slices.Clone(part.Bytes())
				flipped[len(flipped)/2] ^= 1
				if err := os.WriteFile(name+"-flipped", flipped, 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := PlanRecovery(t.Context(), RecoverConfig{Inputs: []string{name + "-flipped"}, Now: time.Now()}); err == nil {
					t.Error("a flipped bit in a part was not noticed")
				}
			}
			r := recovered(t, RecoverConfig{Inputs: parts})
			whole := recovered(t, RecoverConfig{Inputs: s.disks(t, 0, 1)})
			for i := range r.Shards {
				if !r.Shards[i].Exact || r.Shards[i].Chosen != whole.Shards[i].Chosen || r.Shards[i].Replicas[0].Sum != whole.Shards[i].Replicas[0].Sum {
					t.Errorf("of parts %+v, of the disks %+v", r.Shards[i], whole.Shards[i])
				}
			}
			got, want := written(t, r), written(t, whole)
			if a, b := mustRead(t, got), mustRead(t, want); a.Data[2].Sum() != b.Data[2].Sum() || a.System.Sum() != b.System.Sum() || !a.DataExact() {
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

// TestSuspectedReplicasAreNotRecovered: not the convicted one, nor those of a torn log. What is left decides on exactness.
func TestSuspectedReplicasAreNotRecovered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := newStoppedTrio(t)
		part(t, "convicted", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			convicted := convict(t, dirs[1], 2)
			r := recovered(t, RecoverConfig{Inputs: dirs})
			if d := r.Shards[2]; d.Chosen == convicted || !d.Exact {
				t.Errorf("%+v", d)
			}
			two := recovered(t, RecoverConfig{Inputs: s.disks(t, 0)})
			if two.Exact {
				t.Error("one disk of three is exact")
			}
			r.Close()
			if d := recovered(t, RecoverConfig{Inputs: dirs[:2]}).Shards[2]; d.Exact || d.Chosen == convicted || d.Chosen == "" {
				t.Errorf("of two disks, one of them convicted: %+v", d)
			}
		})
		part(t, "torn", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			tear(t, dirs[0])
			r := recovered(t, RecoverConfig{Inputs: dirs})
			for _, d := range r.Shards {
				if !d.Exact || strings.HasPrefix(d.Chosen, "n1/") {
					t.Errorf("%+v", d)
				}
			}
			r.Close()
			for _, d := range recovered(t, RecoverConfig{Inputs: dirs[:2]}).Shards {
				if d.Exact || strings.HasPrefix(d.Chosen, "n1/") {
					t.Errorf("of two disks, one of them torn: %+v", d)
				}
			}
			alone := recovered(t, RecoverConfig{Inputs: s.disks(t, 0), AcceptLoss: true})
			written(t, alone)
		})
		part(t, "only a torn one is left", func(t *testing.T) {
			dirs := s.disks(t, 0)
			tear(t, dirs[0])
			r := recovered(t, RecoverConfig{Inputs: dirs, AcceptLoss: true})
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
			r := recovered(t, RecoverConfig{Inputs: dirs, AcceptLoss: true})
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
						t.Errorf("shard %v is at epoch %d, which the lost history may have had", replica.Shard, s.Epoch())
					}
				})
			}
		})
		part(t, "nothing of the system shard is left", func(t *testing.T) {
			dirs := s.disks(t, 0, 1, 2)
			for _, dir := range dirs {
				convict(t, dir, shard.System)
			}
			r := recovered(t, RecoverConfig{Inputs: dirs, AcceptLoss: true})
			if err := r.Write(new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "no replica of the system shard is left") {
				t.Errorf("policies out of nothing: %v", err)
			}
			r.Close()
			name := filepath.Join(t.TempDir(), "stint.backup")
			if err := os.WriteFile(name, s.backup, 0o600); err != nil {
				t.Fatal(err)
			}
			r = recovered(t, RecoverConfig{Inputs: dirs, AcceptLoss: true, Backup: name})
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
		_, restore := restoredNode(t, s.backup)
		fresh := t.TempDir()
		refused := func(want string, config RecoverConfig) {
			t.Helper()
			config.Now = time.Now()
			if config.answers == nil {
				config.answers = nobodyAnswers
			}
			r, err := PlanRecovery(t.Context(), config)
			if err == nil {
				r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, and not %s", err, want)
			}
		}
		refused("of one cluster only", RecoverConfig{Inputs: []string{dirs[0], other.DataDir}})
		refused("both of node n1", RecoverConfig{Inputs: []string{dirs[0], s.disks(t, 0)[0]}})
		refused("stable.db", RecoverConfig{Inputs: []string{fresh}})
		refused("no data directory", RecoverConfig{})
		refused("in use by another process", RecoverConfig{Inputs: []string{restore.config.DataDir}})
		for _, address := range []string{s.configs[2].APIAddr, s.configs[2].PeerAddr} {
			if address == "" {
				t.Fatal("a node has no address")
			}
		}
		table := s.tableOf(t, dirs[0])
		third := table.Node("n3")
		for _, address := range []string{third.APIAddr, third.PeerAddr} {
			refused("node n3 answers at "+address, RecoverConfig{Inputs: dirs, answers: func(_ context.Context, asked string) bool { return asked == address }})
		}
		s.start(2) // alone it serves nothing, and might be joined by others
		defer s.stop(2)
		live := s.nodes[2]
		refused("answers at ", RecoverConfig{Inputs: dirs, answers: func(ctx context.Context, address string) bool {
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
		refused("and the disks 4 of", RecoverConfig{Inputs: []string{other.DataDir}, Backup: name})
		refused("no part", RecoverConfig{Inputs: []string{name}})
	})
}

// Whoever accepts a connection answers.
func TestAnAddressThatAcceptsAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(t.Context(), listener.Addr().String()) {
		t.Error("it accepts and does not answer")
	}
	listener.Close()
	if accepts(t.Context(), listener.Addr().String()) {
		t.Error("it is closed and answers")
	}
}

func (s *stoppedTrio) tableOf(t *testing.T, dir string) *placement.Table {
	t.Helper()
	one, err := openRemnant(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	table, err := placement.DecodeTable(one.about.Table)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// replicasOf describes replicas "node/0/n" by their last term and index, whose voters are all of them.
func replicasOf(ends ...[2]uint64) (all []RecoveredReplica) {
	var names []string
	for i, end := range ends {
		replica := raftfsm.Replica{Number: uint64(i + 1)}
		node := fmt.Sprint("n", i+1)
		all = append(all, RecoveredReplica{Node: node, Survivor: raftfsm.Survivor{Replica: replica, Name: replica.Name(node), Term: end[0], Index: end[1]}})
		names = append(names, replica.Name(node))
	}
	for i := range all {
		all[i].Newest = raftfsm.Voters{Index: 1, Names: names}
	}
	return all
}

func tableFor(replicas []RecoveredReplica) *placement.Table {
	g := placement.Group{}
	for _, r := range replicas {
		g.Replicas = append(g.Replicas, placement.Replica{Node: r.Node, Number: r.Number, Role: placement.Voter})
	}
	return &placement.Table{Groups: []placement.Group{g}}
}

// TestTheChoiceOfAReplica walks through what speaks for and against one.
func TestTheChoiceOfAReplica(t *testing.T) {
	sums := func(sum uint64) []shard.SumAt {
		return []shard.SumAt{{Version: shard.SumVersion, Epoch: 1, Seq: 9, Sum: sum}}
	}
	names := func(n ...int) (all []string) {
		for _, i := range n {
			all = append(all, fmt.Sprintf("n%d/0/%d", i, i))
		}
		return all
	}
	for what, c := range map[string]struct {
		ends   [][2]uint64
		keep   []int // positions of the replicas that are found; nil: all
		change func(all []RecoveredReplica, t *placement.Table)
		chosen string
		exact  bool
		lost   string
	}{
		"the longest log of the newest term": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3", exact: true},
		"a majority is enough":               {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 1}, chosen: "n2/0/2", exact: true},
		"a minority is not":                  {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0}, chosen: "n1/0/1", lost: "2 are missing"},
		"half is not":                        {ends: [][2]uint64{{2, 50}, {3, 20}}, keep: []int{0}, chosen: "n1/0/1", lost: "1 are missing"},
		"a forgetful one does not count": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 2}, chosen: "n1/0/1", lost: "2 are missing or suspect",
			change: func(all []RecoveredReplica, _ *placement.Table) { all[2].Forgetful = "torn" }},
		"a forgetful one is the last": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{2}, chosen: "n3/0/3", lost: "forgot nothing",
			change: func(all []RecoveredReplica, _ *placement.Table) { all[2].Forgetful = "torn" }},
		"a convicted one is nothing": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{2}, lost: "no replica is left",
			change: func(all []RecoveredReplica, _ *placement.Table) { all[2].Convicted = "bits" }},
		"an unreadable one is nothing": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 1, 2}, chosen: "n2/0/2", exact: true,
			change: func(all []RecoveredReplica, _ *placement.Table) { all[2].Unreadable = "corrupt" }},
		"one that the table says is lost": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n2/0/2", exact: true,
			change: func(_ []RecoveredReplica, t *placement.Table) { t.Groups[0].Replicas[2].Lost = true }},
		"the lost one does not count": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{1, 2}, chosen: "n2/0/2", lost: "2 are missing or suspect",
			change: func(_ []RecoveredReplica, t *placement.Table) { t.Groups[0].Replicas[2].Lost = true }},
		"a majority has another sum": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n2/0/2", exact: true,
			change: func(all []RecoveredReplica, _ *placement.Table) {
				all[0].Sums, all[1].Sums, all[2].Sums = sums(7), sums(7), sums(8)
			}},
		"sums without a majority": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{1, 2}, chosen: "n3/0/3", lost: "no majority",
			change: func(all []RecoveredReplica, _ *placement.Table) {
				for i := range all {
					all[i].Epoch, all[i].Seq = 1, 9
				}
				all[1].Sums, all[2].Sums = sums(7), sums(8)
			}},
		"the configuration before had others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3", lost: "the configuration before, 2 are missing",
			change: func(all []RecoveredReplica, _ *placement.Table) {
				all[2].Previous = raftfsm.Voters{Index: 1, Names: names(3, 4, 5)}
			}},
		"the newest configuration has others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3", lost: "the newest configuration, 2 are missing",
			change: func(all []RecoveredReplica, _ *placement.Table) {
				all[2].Newest, all[2].Previous = raftfsm.Voters{Index: 20, Names: names(3, 4, 5)}, all[2].Newest
			}},
		"the table has others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3", lost: "the table, 2 are missing",
			change: func(_ []RecoveredReplica, t *placement.Table) {
				t.Groups[0].Replicas[0].Number, t.Groups[0].Replicas[1].Number = 11, 12
			}},
	} {
		all := replicasOf(c.ends...)
		table := tableFor(all)
		if c.change != nil {
			c.change(all, table)
		}
		s := RecoveredShard{Replicas: all}
		if c.keep != nil {
			s.Replicas = nil
			for _, i := range c.keep {
				s.Replicas = append(s.Replicas, all[i])
			}
		}
		s.choose(table)
		if s.Chosen != c.chosen || s.Exact != c.exact || !strings.Contains(s.Lost, c.lost) || s.Exact != (s.Lost == "") {
			t.Errorf("%s: chose %q, exact %v, lost %q", what, s.Chosen, s.Exact, s.Lost)
		}
	}
}

// TestTokensAfterARecovery: of an exact system shard they are whole; else nobody administers with a token that may be revoked.
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
			r, err := PlanRestore(b, RestoreConfig{Now: time.Now(), Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			bucket, err := shard.ReadDocument(r.Shards[len(r.Shards)-1].state, auth.Bucket("root"))
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

// TestTheNewestPoliciesAreRecovered: a data shard may have adopted policies that what is left of the system shard does not know.
func TestTheNewestPoliciesAreRecovered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		file := backedUp(t, n)
		stop(t, n)
		b := mustRead(t, file)
		text := []byte("policies: {newer: {limits: [{name: l, quota: 3, lifetime: {}}]}}\n")
		adopting := b.Data[1]
		at := shard.Stamp{Position: shard.Position{Shard: 1, Epoch: adopting.Epoch(), Seq: adopting.Seq() + 1}, Now: adopting.Time()}
		entry := shard.EncodeBatch(at, []shard.Put{shard.AdoptPut(policy.Revision{Version: 7, Text: text})})
		if outcome, err := adopting.Install(entry, adopting.Epoch()+1000, adopting.Term()); err != nil || outcome.Dropped != shard.NotDropped {
			t.Fatal(outcome, err)
		}
		r, err := PlanRestore(b, RestoreConfig{Now: time.Now(), Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		document, err := shard.ReadDocument(r.Shards[len(r.Shards)-1].state, placement.PoliciesDocument)
		if _, known := r.Policies.Lookup("newer"); !known || err != nil || !bytes.Equal(document.Body, text) || document.Version <= 7 {
			t.Errorf("the policies are %q of version %d, %v", document.Body, document.Version, err)
		}
	})
}

// TestAShardOfWhichNothingIsLeftGoesAhead: of every epoch that it may have had, also in a cluster that was restored before.
func TestAShardOfWhichNothingIsLeftGoesAhead(t *testing.T) {
	const last = 5 << 40
	r := &Recovery{Shards: []RecoveredShard{{}, {ID: shard.System, Replicas: []RecoveredReplica{{Survivor: raftfsm.Survivor{Index: last}}}}}}
	state, err := r.state(&r.Shards[0])
	if err != nil || state.Epoch() < last || state.Records() != 0 {
		t.Errorf("epoch %d, %v", state.Epoch(), err)
	}
}
