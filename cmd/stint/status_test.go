package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

func TestStatusOfAHealthyCluster(t *testing.T) {
	f := newCluster()
	transcript(t, "healthy", 0, "status", "--addr", f.serve(t))
}

func TestStatusOfASickCluster(t *testing.T) {
	f := newCluster()
	s := f.status
	s.Nodes[1].Alive, s.Nodes[1].Silent, s.Nodes[1].Owns = false, durationpb.New(92*time.Second), 0
	s.Nodes = append(s.Nodes, &stintv1.Node{Id: "node-3", Draining: true, State: "draining"},
		&stintv1.Node{Id: "node-4", State: "removed"})
	s.Nodes[0].Edges, s.Nodes[0].Leases, s.Nodes[1].Edges = 1, 1, 1
	s.Shards[1].Owner = ""
	s.Shards[1].Replicas = append(s.Shards[1].Replicas, &stintv1.Replica{Node: "node-3", Number: 4, Role: "learner"},
		&stintv1.Replica{Node: "node-5", Number: 3, Role: "leaving", Lost: true})
	s.Moves = []string{"shard 1: node-3 is catching up (replica 4)"}
	s.Problems = []string{"node-2 was not heard from for 1m32s", "shard 1 has no owner"}
	addr := f.serve(t)
	transcript(t, "sick", 1, "status", "--addr", addr)
	code, stdout, stderr := stint("status", "-o", "json", "--addr", addr)
	if code != 1 || !strings.Contains(stdout, `"problems":["node-2 was`) ||
		!strings.Contains(stdout, `"name":"system"`) {
		t.Errorf("as JSON: %d %s", code, stdout)
	}
	if stderr != "stint: the cluster is not healthy: 2 problems\n" {
		t.Errorf("stderr: %s", stderr)
	}
}

func TestStatusOfNoCluster(t *testing.T) {
	f := newCluster()
	f.err = &shard.Error{Code: shard.Unavailable, Message: "the cluster is not formed: 1 of 3 nodes are here"}
	code, stdout, stderr := stint("status", "--addr", f.serve(t))
	if code != 1 || stdout != "" ||
		stderr != "stint: status: unavailable: the cluster is not formed: 1 of 3 nodes are here\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

// A cluster that replaces its machines has more and more removed nodes: a few are named.
func TestStatusNamesAFewRemovedNodes(t *testing.T) {
	m := &stintv1.StatusResponse{Nodes: []*stintv1.Node{{Id: "n0", State: "active"}}}
	for _, want := range []string{"1 node, ", "1 node (and removed: n1), ", "1 node (and removed: n1, n2), ",
		"1 node (and removed: n1, n2, n3), ", "1 node (and removed: n1, n2, n3 and 1 more), "} {
		if line := clusterLine(m); !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
		m.Nodes = append(m.Nodes, &stintv1.Node{Id: fmt.Sprintf("n%d", len(m.Nodes)), State: "removed"})
	}
}
