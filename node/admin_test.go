package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
)

// Where only two clocks exist and they differ, nothing else tells an operator why no shard has an owner.
func TestAClockThatIsOffIsAProblem(t *testing.T) {
	s := api.ClusterStatus{Nodes: []api.NodeStatus{
		{ID: "n1", Alive: true},
		{ID: "n2", Alive: true, ClockAhead: -3 * time.Second},
		{ID: "n3", Alive: true, ClockAhead: 50 * time.Millisecond},
		{ID: "n4", State: "removed", ClockAhead: time.Hour},
	}}
	problems := problemsOf(&s)
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "node n2's clock is -3s ahead") {
		t.Errorf("problems: %q", problems)
	}
}

// A disk without room is why shards have no owner and nodes do not answer: it comes first.
func TestAFullDiskIsTheFirstProblem(t *testing.T) {
	s := api.ClusterStatus{Shards: []api.ShardStatus{{ID: 0}}, Nodes: []api.NodeStatus{
		{ID: "n1", Silent: 4 * time.Second},
		{ID: "n2", Alive: true, DiskFull: true, Machine: &placement.Machine{DiskFree: 5 << 20}},
		{ID: "n3", Alive: true, Machine: &placement.Machine{DiskFree: 500 << 20}},
		{ID: "n4", State: "removed", DiskFull: true, Machine: &placement.Machine{}},
	}}
	problems := problemsOf(&s)
	if len(problems) != 3 || problems[0] != "node n2: 5 MiB free: it takes no writes" {
		t.Errorf("problems: %q", problems)
	}
}
