package node

import (
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// The states of a rotation, in their order, and those of a wrong one.
func TestStatusSaysWhenTheNextStepOfARotationIsSafe(t *testing.T) {
	for _, state := range []struct{ lines, move, problem string }{
		{"old|old|old", "", ""},
		{"||", "", ""},
		{"old new|old|old", "no node sends with line new, and it is missing at n2, n3", ""},
		{"old new|old new|old new", "all nodes accept line new and none sends with it: the next step is safe", ""},
		{"new old|old new|old new", "nodes send with different lines (n1 with new, n2, n3 with old): remove none", ""},
		{"new old|new old|new old", "all nodes accept line old and none sends with it: the next step is safe", ""},
		{"new|new old|new old", "no node sends with line old, and it is missing at n1", ""},
		{"new|new|new", "", ""},
		{"new old|old|old", "different lines", "line new, which n1 sends with, is missing at n2, n3"},
		{"new|new old|old new", "different lines", "line old, which n3 sends with, is missing at n1"},
		{"old new|old new|", "it is not known which lines there are at n3: wait", ""},
		{"new|old|", "wait before the next step", "line new, which n1 sends with, is missing at n2"},
	} {
		var nodes []*stintv1.Node
		for i, lines := range strings.Split(state.lines, "|") {
			nodes = append(nodes, &stintv1.Node{Id: []string{"n1", "n2", "n3"}[i], State: "active",
				KeyLines: strings.Fields(lines)})
		}
		nodes = append(nodes, &stintv1.Node{Id: "n4", State: "removed"})
		moves, problems := keyRotation(nodes)
		for _, said := range []struct {
			got  []string
			want string
		}{{moves, state.move}, {problems, state.problem}} {
			all := strings.Join(said.got, "; ")
			if said.want == "" && len(said.got) > 0 || !strings.Contains(all, said.want) {
				t.Errorf("%s: %q, want %q", state.lines, all, said.want)
			}
		}
		if strings.Contains(state.lines, "|") && strings.HasSuffix(state.lines, "|") &&
			strings.Contains(strings.Join(moves, ""), "step is safe") {
			t.Errorf("%s: it is called safe while a node is silent", state.lines)
		}
	}
}
