package node

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Where only two clocks exist and they differ, nothing else tells an operator why no shard has an owner.
func TestAClockThatIsOffIsAProblem(t *testing.T) {
	problems := statusProblems(&stintv1.StatusResponse{Nodes: []*stintv1.Node{
		{Id: "n1", Alive: true},
		{Id: "n2", Alive: true, ClockAhead: durationpb.New(-3 * time.Second)},
		{Id: "n3", Alive: true, ClockAhead: durationpb.New(50 * time.Millisecond)},
		{Id: "n4", State: "removed", ClockAhead: durationpb.New(time.Hour)},
	}})
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "node n2's clock is -3s ahead") {
		t.Errorf("problems: %q", problems)
	}
}

// A disk without room is why shards have no owner and nodes do not answer: it comes first.
func TestAFullDiskIsTheFirstProblem(t *testing.T) {
	full := &stintv1.Machine{DiskFull: true, DiskFree: 5 << 20}
	problems := statusProblems(&stintv1.StatusResponse{Shards: []*stintv1.Shard{{Name: "0"}}, Nodes: []*stintv1.Node{
		{Id: "n1", Silent: durationpb.New(4 * time.Second)},
		{Id: "n2", Alive: true, Machine: full},
		{Id: "n3", Alive: true, Machine: &stintv1.Machine{DiskFree: 500 << 20}},
		{Id: "n4", State: "removed", Machine: full},
	}})
	if len(problems) != 3 || problems[0] != "node n2: 5 MiB free: it takes no writes" {
		t.Errorf("problems: %q", problems)
	}
}
