package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// fakeCluster gives the answers that the test sets, and records its calls.
type fakeCluster struct {
	mu     sync.Mutex
	asked  []string
	status *stintv1.StatusResponse
	left   int
	err    error

	applied   *policy.Set
	expected  *uint64
	version   uint64
	pending   []uint32
	upgrade   *stintv1.UpgradeStatusResponse
	who       string
	history   []shard.DocumentChange
	changes   []shard.AuditRecord
	kept      []shard.Document
	list      func(shard.ID, shard.Listing) shard.Listed // nil: there are no keys
	listErr   func(shard.ID) error                       // nil: the node has replicas of all shards
	listings  []string
	picture   []byte
	picturing io.WriterTo // writes in its place, if it is not nil
	pictured  shard.ID
	recorded  struct {
		begun time.Time
		bytes uint64
	}
}

var _ ClusterAdmin = (*fakeCluster)(nil)

func (f *fakeCluster) note(words ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.Join(words, " "))
	return f.err
}

func (f *fakeCluster) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeCluster) Status(context.Context) (*stintv1.StatusResponse, error) {
	return f.status, f.note("status")
}

func (f *fakeCluster) Apply(
	_ context.Context, set *policy.Set, expected *uint64, rekey bool, who, note string,
) (uint64, []uint32, error) {
	f.applied, f.expected, f.who = set, expected, who
	return f.version, f.pending, f.note("apply", note)
}

func (f *fakeCluster) Ledger(context.Context) (string, error) { return "ledger", nil }

func (f *fakeCluster) PolicyHistory(context.Context) ([]shard.DocumentChange, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.history, f.err
}

func (f *fakeCluster) History(context.Context) ([]shard.AuditRecord, error) { return f.changes, nil }

func (f *fakeCluster) KeptPolicies(context.Context) ([]shard.Document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept, f.err
}

func (f *fakeCluster) ListKeys(_ context.Context, id shard.ID, q shard.Listing) (shard.Listed, error) {
	if f.listErr != nil {
		if err := f.listErr(id); err != nil {
			return shard.Listed{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listings = append(f.listings, fmt.Sprintf("%s: %+v", id, q))
	if f.list == nil {
		return shard.Listed{}, f.err
	}
	return f.list(id, q), f.err
}

func (f *fakeCluster) Drain(_ context.Context, node string, on, untilRestart bool) (int, error) {
	if untilRestart {
		return f.left, f.note("drain until restart", node)
	}
	if on {
		return f.left, f.note("drain", node)
	}
	return f.left, f.note("drain off", node)
}

func (f *fakeCluster) SetShards(_ context.Context, shards uint32, expected *uint64) error {
	if expected != nil {
		return f.note("shards", fmt.Sprint(shards), "by", fmt.Sprint(*expected))
	}
	return f.note("shards", fmt.Sprint(shards))
}

func (f *fakeCluster) Upgrade(context.Context) (*stintv1.UpgradeStatusResponse, error) {
	return f.upgrade, f.note("upgrade")
}

func (f *fakeCluster) PinLevel(_ context.Context, level shard.Level) error {
	return f.note("pin", fmt.Sprint(level))
}

func (f *fakeCluster) FinishUpgrade(context.Context) (shard.Level, error) {
	return shard.Level(f.upgrade.GetKnownByAll()), f.note("finish")
}

func (f *fakeCluster) Picture(_ context.Context, id shard.ID) (Picture, error) {
	f.pictured = id
	if f.picturing != nil {
		return Picture{WriterTo: f.picturing}, f.note("picture")
	}
	return Picture{WriterTo: bytes.NewReader(f.picture)}, f.note("picture")
}

func (f *fakeCluster) RecordBackup(_ context.Context, begun time.Time, bytes uint64) error {
	f.recorded.begun, f.recorded.bytes = begun, bytes
	return f.note("record backup")
}

func (f *fakeCluster) RemoveNode(_ context.Context, node string) error { return f.note("remove", node) }

func aStatus() *stintv1.StatusResponse {
	return &stintv1.StatusResponse{ClusterId: "3f2a", TableVersion: 9, PoliciesVersion: 2,
		Nodes: []*stintv1.Node{
			{Id: "a", Zone: "z1", Version: "v1", ApiAddr: "10.0.0.1:7400", PeerAddr: "10.0.0.1:7401", State: "active",
				Alive:  true,
				Silent: &durationpb.Duration{}, Owns: 2, Replicas: 2, ClockAhead: durationpb.New(-3 * time.Millisecond),
				ApiCertificateEnds:  timestampOf(noon + 3600e6),
				PeerCertificateEnds: timestampOf(noon), KeyLines: []string{"a1b2"}},
			{Id: "b", Draining: true, State: "draining", Silent: durationpb.New(90 * time.Second), Replicas: 2,
				ClockAhead: &durationpb.Duration{}},
		},
		Shards: []*stintv1.Shard{
			{Id: 0, Name: "0", Owner: "a", Epoch: 17, Seq: 99, Time: timestampOf(noon), Keys: 5, PoliciesVersion: 2,
				Slots: []*stintv1.SlotRange{{First: 0, Last: 511}}, Replicas: []*stintv1.Replica{
					{Node: "a", Number: 1, Voter: true, Role: "voter", Known: true},
					{Node: "b", Number: 4, Role: "learner", Lost: true, Lag: 12}}},
			{Id: uint32(shard.System), Name: "system"},
		},
		Moves:    []string{"shard 0: b/4 is catching up"},
		Problems: []string{"node b is not heard from"},

		WantedShards: 2, ShardsRevision: 6, SlotsToMove: 512,
		SlotMoves: []*stintv1.SlotMove{{Slot: 7, To: 1, Back: true, Waits: "a hold"}},
	}
}

func TestJSONOfTheStatus(t *testing.T) {
	w := newWorld(t)
	w.cluster.status = aStatus()
	code, _, body := w.post("ClusterService/Status", `{}`)
	want := `{"clusterId":"3f2a","nodes":[` +
		`{"id":"a","apiAddr":"10.0.0.1:7400","zone":"z1","version":"v1","alive":true,"draining":false,` +
		`"state":"active",` +
		`"silent":"0s","peerAddr":"10.0.0.1:7401","owns":2,"replicas":2,"clockAhead":"-0.003s",` +
		`"apiCertificateEnds":"2026-11-21T13:00:00.250Z","peerCertificateEnds":"2026-11-21T12:00:00.250Z",` +
		`"keyLines":["a1b2"],"edges":0,"leases":0},` +
		`{"id":"b","apiAddr":"","zone":"","version":"","alive":false,"draining":true,"state":"draining",` +
		`"silent":"90s","peerAddr":"","owns":0,"replicas":2,"clockAhead":"0s","keyLines":[],"edges":0,"leases":0}],"shards":[` +
		`{"id":0,"owner":"a","epoch":"17","seq":"99","time":"2026-11-21T12:00:00.250Z","keys":"5","replicas":[` +
		`{"node":"a","voter":true,"lag":"0","number":"1","role":"voter","lost":false,"known":true},` +
		`{"node":"b","voter":false,"lag":"12","number":"4","role":"learner","lost":true,"known":false}],` +
		`"policiesVersion":"2","name":"0","slots":[{"first":0,"last":511}]},` +
		`{"id":4294967295,"owner":"","epoch":"0","seq":"0","keys":"0","replicas":[],"policiesVersion":"0",` +
		`"name":"system","slots":[]}],` +
		`"policiesVersion":"2","tableVersion":"9","moves":["shard 0: b/4 is catching up"],` +
		`"problems":["node b is not heard from"],"partial":false,"wantedShards":2,"slotsToMove":512,` +
		`"slotMoves":[{"slot":7,"from":0,"to":1,"back":true,"waits":"a hold"}],"shardsRevision":"6"}`
	if got := compact(t, body); code != 200 || got != want {
		t.Errorf("%d\ngot  %s\nwant %s", code, got, want)
	}
}

// A browser or curl may read the status, but only Status changes nothing.
func TestStatusByHTTPGet(t *testing.T) {
	w := newWorld(t)
	w.cluster.status = aStatus()
	query := "?" + url.Values{"encoding": {"json"}, "message": {"{}"}}.Encode()
	if code, _, body := w.do("GET", "/stint.v1.ClusterService/Status"+query, "", ""); code != 200 ||
		!strings.Contains(body, "3f2a") {
		t.Errorf("Status: %d %s", code, body)
	}
	for _, procedure := range []string{"Drain", "RemoveNode"} {
		if code, _, _ := w.do("GET", "/stint.v1.ClusterService/"+procedure+query, "",
			""); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", procedure, code)
		}
	}
	if seen := w.cluster.seen(); !slices.Equal(seen, []string{"status"}) {
		t.Errorf("the cluster was asked %q", seen)
	}
}

func TestChangesOfTheCluster(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.url = serveWorld(t, newAPI(Config{Decider: w.decider, Revision: func() *policy.Revision { return w.revision },
		Ready: func() error { return nil }, Metrics: http.NotFoundHandler(), Cluster: w.cluster,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})).url
	w.cluster.left = 3
	for _, c := range []struct{ call, body, want, asked string }{
		{"Drain", `{"nodeId":"b"}`, `{"shardsLeft":3}`, "drain b"},
		{"Drain", `{}`, `{"shardsLeft":3}`, "drain "},
		{"Drain", `{"nodeId":"b","off":true}`, `{"shardsLeft":3}`, "drain off b"},
		{"RemoveNode", `{"nodeId":"b"}`, `{}`, "remove b"},
		{"SetShards", `{"shards":3}`, `{}`, "shards 3"},
		{"SetShards", `{"shards":3,"expectedRevision":"0"}`, `{}`, "shards 3 by 0"},
		{"PinLevel", `{"level":3}`, `{}`, "pin 3"},
		{"FinishUpgrade", `{}`, `{"level":0}`, "finish"},
	} {
		log.Reset()
		code, _, body := w.post("ClusterService/"+c.call, c.body)
		seen := w.cluster.seen()
		if text := log.String(); !strings.Contains(text, "call="+c.call+" request=") ||
			strings.Contains(c.body, `"b"`) != strings.Contains(text, `\"b\"`) ||
			!strings.Contains(text, " actor=127.0.0.1\n") {
			t.Errorf("%s %s: the log says %q", c.call, c.body, text)
		}
		if code != 200 || compact(t, body) != c.want || seen[len(seen)-1] != c.asked {
			t.Errorf("%s %s: %d %s after %q", c.call, c.body, code, body, seen[len(seen)-1])
		}
	}
	log.Reset()
	asked := len(w.cluster.seen())
	for body, want := range map[string]string{
		`{}`: "node_id: is missing", `{"nodeId":"` + strings.Repeat("n", 257) + `"}`: "node_id: has 257 bytes: " +
			"at most 256 are allowed",
	} {
		_, _, answer := w.post("ClusterService/RemoveNode", body)
		if e, _ := readError(t, answer); e.Code != "invalid_argument" || e.Message != want {
			t.Errorf("%s: %s", want, answer)
		}
	}
	if len(w.cluster.seen()) != asked || log.Len() > 0 {
		t.Errorf("a wrong request reached the cluster, or its log: %s", &log)
	}
}

// An error of the cluster keeps its fate on the way to the client.
func TestErrorsOfTheCluster(t *testing.T) {
	w := newWorld(t)
	for _, call := range []struct{ procedure, body string }{
		{"ClusterService/Status", `{}`}, {"ClusterService/Drain", `{}`},
		{"ClusterService/RemoveNode", `{"nodeId":"b"}`}, {"PolicyService/Apply", onePolicy},
	} {
		w.cluster.err = &shard.Error{Code: shard.Conflict, Message: "b is the last node"}
		_, _, body := w.post(call.procedure, call.body)
		if e, f := readError(t, body); e.Code != "failed_precondition" || e.Message != "b is the last node" ||
			f.MaybeApplied {
			t.Errorf("%s: %s", call.procedure, body)
		}
		w.cluster.err = &shard.Error{Code: shard.UnknownOutcome, Message: "no answer"}
		_, _, body = w.post(call.procedure, call.body)
		if e, f := readError(t, body); e.Code != "aborted" || !f.MaybeApplied {
			t.Errorf("%s: %s", call.procedure, body)
		}
	}
}

func TestStatusByGRPC(t *testing.T) {
	w := newWorld(t)
	w.cluster.status = aStatus()
	conn := w.dial(strings.TrimPrefix(w.url, "http://"))
	var response stintv1.StatusResponse
	if err := conn.Invoke(t.Context(), stintv1connect.ClusterServiceStatusProcedure, &stintv1.StatusRequest{},
		&response); err != nil ||
		response.Shards[1].Name != "system" {
		t.Errorf("%v, %v", &response, err)
	}
	w.cluster.err = &shard.Error{Code: shard.Unavailable, Message: "not formed"}
	err := conn.Invoke(t.Context(), stintv1connect.ClusterServiceStatusProcedure, &stintv1.StatusRequest{}, &response)
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

// TestAPictureComesInChunks: also one that is larger than any message.
func TestAPictureComesInChunks(t *testing.T) {
	w := newWorld(t)
	w.cluster.picture = bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	client := stintv1connect.NewClusterServiceClient(http.DefaultClient, w.url)
	for _, name := range []string{"3", "system"} {
		stream, err := client.Backup(t.Context(), connect.NewRequest(&stintv1.BackupRequest{Shard: name}))
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for stream.Receive() {
			if n := len(stream.Msg().Data); n > 256<<10 {
				t.Errorf("a chunk of %d bytes", n)
			}
			got = append(got, stream.Msg().Data...)
		}
		if stream.Err() != nil || !bytes.Equal(got, w.cluster.picture) || w.cluster.pictured.String() != name {
			t.Errorf("shard %s: %d bytes of %d of shard %s, %v",
				name, len(got), len(w.cluster.picture), w.cluster.pictured, stream.Err())
		}
	}
	w.cluster.err = &shard.Error{Code: shard.Unavailable, Message: "no replica here"}
	for name, want := range map[string]connect.Code{"3": connect.CodeUnavailable, "x": connect.CodeInvalidArgument,
		"": connect.CodeInvalidArgument} {
		stream, err := client.Backup(t.Context(), connect.NewRequest(&stintv1.BackupRequest{Shard: name}))
		if err != nil {
			t.Fatal(err)
		}
		if stream.Receive() || connect.CodeOf(stream.Err()) != want {
			t.Errorf("shard %q: %v", name, stream.Err())
		}
		stream.Close()
	}
}

func TestABackupIsRecordedAndShown(t *testing.T) {
	w := newWorld(t)
	client := stintv1connect.NewClusterServiceClient(http.DefaultClient, w.url)
	begun := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if _, err := client.RecordBackup(t.Context(),
		connect.NewRequest(&stintv1.RecordBackupRequest{Begun: timestamppb.New(begun), Bytes: 7})); err != nil {
		t.Fatal(err)
	}
	if w.cluster.recorded.bytes != 7 || !w.cluster.recorded.begun.Equal(begun) {
		t.Errorf("recorded %+v", w.cluster.recorded)
	}
	if _, err := client.RecordBackup(t.Context(),
		connect.NewRequest(&stintv1.RecordBackupRequest{})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("without a time: %v", err)
	}
	answer, err := client.Status(t.Context(), connect.NewRequest(&stintv1.StatusRequest{}))
	if err != nil || answer.Msg.LastBackup != nil {
		t.Errorf("%v, %v", answer, err)
	}
	w.cluster.status.LastBackup = timestamppb.New(begun)
	if answer, err = client.Status(t.Context(), connect.NewRequest(&stintv1.StatusRequest{})); err != nil ||
		!answer.Msg.LastBackup.AsTime().Equal(begun) {
		t.Errorf("%v, %v", answer, err)
	}
}

// A node that does not know its cluster yet refuses every such call at once.
func TestBeforeTheClusterIsKnown(t *testing.T) {
	w := newWorld(t)
	w.cluster.err = &shard.Error{Code: shard.Unavailable, Message: "not formed"}
	w.decider.decide = fail(&shard.Error{Code: shard.Unavailable, Message: "not formed"})
	for _, revision := range []*policy.Revision{nil, {}} {
		w.revision = revision
		for _, call := range []struct{ procedure, body string }{
			{"LimitService/Check", perIP}, {"PolicyService/List", `{}`}, {"PolicyService/Apply", onePolicy},
			{"ClusterService/Status", `{}`},
		} {
			code, header, body := w.post(call.procedure, call.body)
			if e, f := readError(t, body); code != 503 || e.Code != "unavailable" || f.MaybeApplied ||
				header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s", call.procedure, code, body)
			}
		}
	}
	// A decision that arrives anyway is answered, without the headers that need the policies.
	w.decider.decide = allow
	if code, _, body := w.post("LimitService/Check", perIP); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// The history lists the actor of each version, and so does the audit log unless it is asked for one key.
func TestPolicyHistory(t *testing.T) {
	w := newWorld(t)
	if code, _, body := w.post("PolicyService/Apply", onePolicy); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if w.cluster.who == "" {
		t.Error("nobody is named")
	}
	w.cluster.history = []shard.DocumentChange{{Version: 2,
		AuditRecord: shard.AuditRecord{At: noon, Actor: "jo", Note: "more", Deed: "apply"}},
		{Version: 3, AuditRecord: shard.AuditRecord{At: noon + 1, Actor: "al", Deed: "apply"}}}
	w.cluster.kept = []shard.Document{{Version: 3, Body: []byte(keptPolicies)}}
	code, _, body := w.post("PolicyService/History", "{}")
	if want := `{"versions":[{"version":"3","at":"2026-11-21T12:00:00.250001Z","actor":"al","note":"","kept":true},` +
		`{"version":"2","at":"2026-11-21T12:00:00.250Z","actor":"jo","note":"more","kept":false}]}`; code != 200 ||
		compact(t, body) != want {
		t.Errorf("%d %s", code, body)
	}
	_, _, body = w.post("ObserveService/Audit", "{}")
	if !strings.Contains(compact(t, body), `"deed":"apply","before":"version 1","after":"version 2","note":"more"`) {
		t.Errorf("the audit log: %s", body)
	}
	_, _, body = w.post("ObserveService/Audit", `{"policy":"api"}`)
	if strings.Contains(body, "apply") {
		t.Errorf("of one policy: %s", body)
	}
}

// keptPolicies are policies as the system shard keeps them.
const keptPolicies = "policies: {old: {limits: [{name: a, quota: 7, lifetime: {}}]}}\n" +
	"namespaces: {shop: {keys: hashed}}\n"

// A version that is kept comes back as it was applied. The refusal of another one says which there are.
func TestGetVersion(t *testing.T) {
	w := newWorld(t)
	w.cluster.kept = []shard.Document{{Version: 3, Body: []byte(keptPolicies)},
		{Version: 4, Body: []byte("policies: {new: {limits: [{name: a, quotas: 7}]}}")}}
	code, _, body := w.post("PolicyService/GetVersion", `{"version":3}`)
	for _, want := range []string{`"name":"old"`, `"quota":"7"`, `shop`, `hashed`} {
		if code != 200 || !strings.Contains(compact(t, body), want) {
			t.Errorf("%d %s", code, body)
		}
	}
	if code, _, body = w.post("PolicyService/GetVersion", `{"version":2}`); code != 404 ||
		!strings.Contains(body, "version: 2 is not kept; these are: 3, 4") {
		t.Errorf("%d %s", code, body)
	}
	if code, _, body = w.post("PolicyService/GetVersion", `{"version":4}`); code != 400 ||
		!strings.Contains(body, "version: 4 cannot be read") {
		t.Errorf("%d %s", code, body)
	}
}

// A stale read reports its age, and a read without a replica here goes to the owner.
func TestStaleReadsAreLabelled(t *testing.T) {
	w := newWorld(t)
	get := `{"staleOk":true,"entries":[{"policy":"per-ip","key":"k"}]}`
	w.stale = func(r shard.Request) (shard.Decision, time.Duration, bool) {
		return allow(r).Decision, 1500 * time.Millisecond, true
	}
	_, _, body := w.post("LimitService/Get", get)
	if !strings.Contains(compact(t, body), `"staleBy":"1.500s"`) || len(w.decider.requests()) > 0 {
		t.Errorf("%s, %d asked", body, len(w.decider.requests()))
	}
	if _, _, body = w.post("LimitService/Get", strings.Replace(get, "true", "false", 1)); strings.Contains(body,
		"staleBy") {
		t.Errorf("got %s", body)
	}
	w.stale = func(shard.Request) (d shard.Decision, behind time.Duration, ok bool) { return d, 0, false }
	if _, _, body = w.post("LimitService/Get", get); strings.Contains(body, "staleBy") ||
		len(w.decider.requests()) != 2 {
		t.Errorf("got %s", body)
	}
}
