package main

import (
	"slices"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// A node that has no replica of a shard sends the command on to those that have one, which speak TLS as it does.
func TestOtherNodesAreAskedForABackupAsTheFirstIs(t *testing.T) {
	status := &stintv1.StatusResponse{
		Nodes: []*stintv1.Node{{Id: "a", ApiAddr: "10.0.0.1:7400", Alive: true}, {Id: "b", ApiAddr: "10.0.0.2:7400", Alive: true},
			{Id: "c", ApiAddr: "10.0.0.3:7400"}},
		Shards: []*stintv1.Shard{{Name: "0", Replicas: []*stintv1.Replica{{Node: "b"}, {Node: "c"}}}, {Name: "1", Replicas: []*stintv1.Replica{{Node: "a"}}}},
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
