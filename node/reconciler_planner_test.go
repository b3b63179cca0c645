package node

import (
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/placement"
)

// The table that is planned decides, though the view may know an older one in which the node still has replicas.
func TestANodeThatHasLeftByThePlannedTableLingersWhileItAnswers(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := &planner{now: func() time.Time { return now }}
	table := placement.NewTable("c", []placement.Node{{ID: "n1"}, {ID: "n2"}}, 1, 1)
	table.Nodes = append(table.Nodes, placement.Node{ID: "n3", State: placement.NodeLeaving})
	answers := placement.Observed{Reports: map[string]placement.Report{"n3": {}}}
	silent := answers
	silent.Silent = map[string]time.Duration{"n3": time.Millisecond}
	if l := p.lingering(table, &silent); l["n3"] {
		t.Error("a node that has stopped lingers")
	}
	if l := p.lingering(table, &answers); !l["n3"] || l["n1"] || l["n2"] {
		t.Errorf("%v linger, want n3", l)
	}
	now = now.Add(lingerMost)
	if l := p.lingering(table, &answers); l["n3"] {
		t.Error("it lingers for good")
	}
}
