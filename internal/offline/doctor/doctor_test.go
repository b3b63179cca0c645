package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// The doctor's report on a cluster with every fault that it knows is a page of the manual.
func TestDoctorOfASickCluster(t *testing.T) {
	now := time.Date(2026, 11, 24, 2, 0, 0, 0, time.UTC)
	in := func(left time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(left)) }
	voters := func(known ...bool) (all []*stintv1.Replica) {
		for i, k := range known {
			all = append(all, &stintv1.Replica{Node: []string{"node-1", "node-2", "node-3"}[i], Voter: true,
				Role: "voter", Known: k})
		}
		return all
	}
	m := &stintv1.StatusResponse{
		LastBackup: in(-50 * time.Hour),
		Problems:   []string{"node node-3 has not answered for 1m32s", "shard 1 has no owner"},
		Shards: []*stintv1.Shard{
			{Name: "0", Owner: "node-1", Replicas: voters(true, true, false)},
			{Name: "1", Replicas: voters(true, false, false)},
			{Name: "2", Owner: "node-1", Replicas: voters(false, true, false)},
			{Name: "system", Owner: "node-1", Replicas: voters(true, true, true)},
		},
		Nodes: []*stintv1.Node{
			{Id: "node-1", State: "active", Alive: true, ApiCertificateEnds: in(20 * day),
				PeerCertificateEnds: in(-time.Hour),
				Machine: &stintv1.Machine{DiskFree: 1 << 30, LogWriteMean: durationpb.New(12 * time.Millisecond),
					LogWriteSlowest: durationpb.New(40 * time.Millisecond), Memory: 990 << 20, MemoryLimit: 1000 << 20,
					RecordBytes: 5 << 20, RecordBytesLimit: 80 << 20}},
			{Id: "node-2", State: "active", Alive: true, ClockAhead: durationpb.New(-150 * time.Millisecond),
				ApiCertificateEnds: in(9 * day), Machine: &stintv1.Machine{DiskFree: 60 << 20, DiskFull: true,
					LogWriteMean:    durationpb.New(90 * time.Millisecond),
					LogWriteSlowest: durationpb.New(1800 * time.Millisecond), RecordBytes: 720 << 20,
					RecordBytesLimit: 800 << 20}},
			// it does not answer: its clock is old news
			{Id: "node-3", State: "active", ClockAhead: durationpb.New(900 * time.Millisecond)},
			{Id: "node-4", State: "active", Alive: true, ClockAhead: durationpb.New(350 * time.Millisecond),
				Machine: &stintv1.Machine{
					DiskFree: 1 << 40, RecordBytes: 520 << 20, RecordBytesLimit: 800 << 20}},
			{Id: "node-5", State: "active", Alive: true},
			{Id: "node-6", State: "removed", Alive: true, ApiCertificateEnds: in(-time.Hour)},
		},
	}
	m.Shards[3].Replicas[1].Lag = lagSuspect + 1
	m.Shards[3].Replicas[2].Lost = true
	d := &doctor{Config: Config{BackupAge: day}}
	d.cluster(m, now)
	compare(t, "sick", d.findings)
}

// What the doctor finds well is said of the nodes that it has heard of.
func TestWellIsWhatAnswers(t *testing.T) {
	for alive, want := range map[bool]string{true: "room on all", false: "room on all that answer"} {
		d := &doctor{}
		d.cluster(&stintv1.StatusResponse{Nodes: []*stintv1.Node{
			{Id: "node-1", State: "active", Alive: true, Machine: &stintv1.Machine{DiskFree: 1 << 40}},
			{Id: "node-2", State: "active", Alive: alive, Machine: &stintv1.Machine{DiskFree: 1 << 40}},
			{Id: "node-3", State: "removed"}}}, time.Unix(0, 0))
		if !slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Check == "disk" && f.Found == want }) {
			t.Errorf("alive %v: %+v", alive, d.findings)
		}
	}
}

// The doctor's report on sinks that fail, and on events that were given up.
func TestDoctorOfSickSinks(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 24, 2, 0, 0, 0, time.UTC))
	d := &doctor{}
	d.sinks([]*stintv1.Sink{
		{Name: "billing", Url: "https://example.com/hooks", Failing: "it answered 500 Internal Server Error"},
		{Name: "money", DisabledAt: at, DisabledWhy: "it answered 410 Gone"},
		{Name: "well"},
	})
	d.letters(&stintv1.ListEventsResponse{More: true, Missing: []string{"3"},
		Events: []*stintv1.SinkEvent{{Sink: "billing", At: at}, {Sink: "money", At: at}}})
	d.sinks([]*stintv1.Sink{{Name: "well"}, {Name: "another"}})
	d.letters(&stintv1.ListEventsResponse{})
	compare(t, "sinks", d.findings)
}

// compare compares what is printed of findings with a file.
func compare(t *testing.T, name string, findings []Finding) {
	t.Helper()
	var got bytes.Buffer
	Print(&got, findings)
	want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got.String(), want)
	}
}
