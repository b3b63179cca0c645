package node

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/api"
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
