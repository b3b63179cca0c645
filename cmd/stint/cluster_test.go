package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// fakeCluster is a cluster behind the real API. Each question about it takes it one step further.
type fakeCluster struct {
	api.ClusterAdmin // nil, as the next one: for what no test asks
	api.Decider

	mu       sync.Mutex
	asked    []string
	expected *uint64 // of the last Apply
	rekey    bool    // likewise
	status   *stintv1.StatusResponse
	step     func(*stintv1.StatusResponse) // before each Status and Drain; nil: no progress
	revision *policy.Revision
	pending  []uint32
	err      error
	picture  []byte
	table    *placement.Table // of the system shard's picture
	at       limit.Time       // shard time of that picture
	slots    []byte           // of each picture
	secrets  api.SecretAdmin  // nil: not known

	upgrade     *stintv1.UpgradeStatusResponse
	stepUpgrade func(*stintv1.UpgradeStatusResponse) // before each answer; nil: no progress
}

func (f *fakeCluster) next(question string) error {
	f.asked = append(f.asked, question)
	if f.step != nil {
		f.step(f.status)
	}
	return f.err
}

func (f *fakeCluster) Status(context.Context) (*stintv1.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.next("status")
	return proto.CloneOf(f.status), err
}

func (f *fakeCluster) Apply(
	_ context.Context, set *policy.Set, expected *uint64, rekey bool, who, note string,
) (uint64, []uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "apply "+note)
	f.expected, f.rekey = expected, rekey
	if expected != nil && *expected != f.revision.Version {
		return 0, nil, api.VersionConflict(*expected, f.revision.Version)
	}
	if f.err == nil {
		f.revision = &policy.Revision{Version: f.revision.Version + 1, Set: set}
	}
	return f.revision.Version, f.pending, f.err
}

func (f *fakeCluster) Ledger(context.Context) (string, error) { return "ledger", nil }

func (f *fakeCluster) PolicyHistory(context.Context) ([]shard.DocumentChange, error) {
	at := limit.Time(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixMicro())
	return []shard.DocumentChange{
		{Version: 2, AuditRecord: shard.AuditRecord{At: at, Actor: "jo", Note: "double the burst"}},
		{Version: 3, AuditRecord: shard.AuditRecord{At: at + 60e6, Actor: "10.0.0.7"}},
	}, nil
}

func (f *fakeCluster) History(context.Context) ([]shard.AuditRecord, error) { return nil, nil }

func (f *fakeCluster) KeptPolicies(context.Context) ([]shard.Document, error) {
	return []shard.Document{{Version: 1, Body: []byte("policies: {}")},
		{Version: 2, Body: policy.Format(f.inForce().Set)}}, nil
}

func (f *fakeCluster) Drain(_ context.Context, node string, on, untilRestart bool) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := fmt.Sprintf("drain %q %v", node, on)
	if untilRestart {
		asked += " until restart"
	}
	err := f.next(asked)
	return int(f.status.Nodes[1].Owns), err
}

func (f *fakeCluster) SetShards(_ context.Context, shards uint32, expected *uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.next(fmt.Sprint("shards ", shards))
	if expected == nil || *expected != f.status.ShardsRevision {
		return &shard.Error{Code: shard.Conflict, Field: "expected_revision",
			Message: "another one is in force; nothing was changed"}
	}
	f.status.WantedShards = shards
	return err
}

func (f *fakeCluster) Upgrade(context.Context) (*stintv1.UpgradeStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.next("upgrade")
	if f.stepUpgrade != nil {
		f.stepUpgrade(f.upgrade)
	}
	return proto.CloneOf(f.upgrade), err
}

func (f *fakeCluster) PinLevel(_ context.Context, level shard.Level) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next(fmt.Sprint("pin ", level))
}

func (f *fakeCluster) FinishUpgrade(context.Context) (shard.Level, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return shard.Level(f.upgrade.KnownByAll), f.next("finish")
}

func (f *fakeCluster) Picture(_ context.Context, id shard.ID) (api.Picture, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == shard.System {
		state, err := shard.ContinueSystem(shard.NewState(id), max(f.at, 1),
			map[string][]byte{placement.TableDocument: f.table.Encode()}, 0)
		if err != nil {
			return api.Picture{}, err
		}
		return api.Picture{WriterTo: state.Snapshot()}, f.next("picture")
	}
	return api.Picture{WriterTo: bytes.NewReader(f.picture), Slots: f.slots}, f.next("picture")
}

func (f *fakeCluster) RecordBackup(_ context.Context, _ time.Time, size uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next(fmt.Sprintf("record backup of %d bytes", size))
}

func (f *fakeCluster) RemoveNode(_ context.Context, node string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "remove "+node)
	return f.err
}

func (f *fakeCluster) inForce() *policy.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

func (f *fakeCluster) count(question string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.asked {
		if strings.HasPrefix(asked, question) {
			n++
		}
	}
	return n
}

// serve puts the cluster behind an address.
func (f *fakeCluster) serve(t *testing.T) (addr string) {
	t.Helper()
	guard := auth.NewGuard(nil)
	guard.Learn(&auth.Set{Known: true}) // of a cluster without tokens
	server := httptest.NewServer(api.New(api.Config{Decider: f, Cluster: f, Secrets: f.secrets, Revision: f.inForce,
		Ready: func() error { return nil }, Metrics: http.NotFoundHandler(), Guard: guard, Port: auth.Loopback,
		Logger: slog.New(slog.DiscardHandler), RequestTimeout: 2 * time.Minute,
		Keys: func(string, bool) (*keyhash.Namespace, *shard.Error) { return nil, nil }}))
	t.Cleanup(server.Close)
	return server.URL
}

// What TLS refuses is said in a sentence, as every command says it, and not in that of a library.
func TestVerifySaysWhatIsWrongWithTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	code, _, stderr := stint("tool", "verify", "--addr", server.URL, "--policy", "p", "--duration", "1s")
	if code != 1 || !strings.Contains(stderr, "no answer from "+server.URL+": ") || !strings.Contains(stderr, "--ca") ||
		strings.Contains(stderr, "x509") {
		t.Errorf("%d %q", code, stderr)
	}
}

func newCluster() *fakeCluster {
	voters := func(lag uint64) []*stintv1.Replica {
		return []*stintv1.Replica{{Node: "node-1", Number: 1, Voter: true, Role: "voter", Known: true},
			{Node: "node-2", Number: 1, Voter: true, Role: "voter", Known: true, Lag: lag}}
	}
	node := func(id, zone string, ahead time.Duration) *stintv1.Node {
		return &stintv1.Node{Id: id, Zone: zone, Version: "v0.2.0", ApiAddr: id + ":7400", PeerAddr: id + ":7401",
			State: "active", Alive: true, Replicas: 3, Silent: &durationpb.Duration{},
			ClockAhead: durationpb.New(ahead)}
	}
	f := &fakeCluster{revision: &policy.Revision{Version: 2, Set: policy.Dev()}}
	f.status = &stintv1.StatusResponse{ClusterId: "3f2a9c0d11e84b57", TableVersion: 9, PoliciesVersion: 2,
		Nodes: []*stintv1.Node{node("node-1", "east", 0), node("node-2", "west", 3*time.Millisecond)},
		Shards: []*stintv1.Shard{
			{Name: "0", Owner: "node-1", Epoch: 17, Seq: 99, Keys: 1500, PoliciesVersion: 2, Replicas: voters(3)},
			{Id: 1, Name: "1", Owner: "node-2", Epoch: 21, Seq: 4, Keys: 7, PoliciesVersion: 2, Replicas: voters(0)},
			{Id: uint32(shard.System), Name: "system", Owner: "node-1", Epoch: 12, Seq: 5, Replicas: voters(0)},
		}}
	f.status.Nodes[0].Owns, f.status.Nodes[1].Owns = 2, 1
	return f
}

// stint runs a command line in this process.
func stint(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// transcript compares the visible output of a command line with a file in testdata/cluster.
func transcript(t *testing.T, name string, wantCode int, args ...string) {
	t.Helper()
	transcriptFrom(t, name, wantCode, "", args...)
}

// transcriptFrom is transcript with a file of that text for the argument policies.yaml.
func transcriptFrom(t *testing.T, name string, wantCode int, policies string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	for i, arg := range args {
		if arg == "policies.yaml" {
			args[i] = filepath.Join(dir, arg)
			writeFile(t, args[i], policies)
		}
	}
	code, stdout, stderr := stint(args...)
	if code != wantCode {
		t.Errorf("%s: exit code %d, want %d", name, code, wantCode)
	}
	got := stdout
	if stderr != "" {
		got += "-- stderr --\n" + stderr
	}
	got = strings.ReplaceAll(got, dir+string(filepath.Separator), "")
	compareTranscript(t, name, got)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compareTranscript compares text with a file in testdata/cluster.
func compareTranscript(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", "cluster", name+".txt")
	if *update {
		writeFile(t, golden, got)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}
