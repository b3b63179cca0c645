package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// keyRotation says how far the listed nodes are with a change of the cluster key, and whether the next step is safe:
// every line that a node sends with must be accepted by all. It says nothing when all nodes have the same single line,
// and where none has a cluster key.
func keyRotation(nodes []*stintv1.Node) (moves, problems []string) {
	// the nodes that belong to the cluster, and those among them that do not say which lines they have
	var asked, silent []string
	senders, holders := map[string][]string{}, map[string][]string{}
	for _, n := range nodes {
		if n.State == "removed" {
			continue
		}
		asked = append(asked, n.Id)
		if len(n.KeyLines) == 0 {
			silent = append(silent, n.Id)
			continue
		}
		senders[n.KeyLines[0]] = append(senders[n.KeyLines[0]], n.Id)
		for _, line := range n.KeyLines {
			holders[line] = append(holders[line], n.Id)
		}
	}
	if len(holders) < 2 {
		return nil, nil
	}
	said := func(format string, args ...any) string { return "cluster key: " + fmt.Sprintf(format, args...) }
	without := func(line string) []string {
		return slices.DeleteFunc(slices.Clone(asked), func(n string) bool {
			return slices.Contains(holders[line], n) || slices.Contains(silent, n)
		})
	}
	if len(silent) > 0 {
		moves = append(moves, said("it is not known which lines there are at %s: wait before the next step",
			nodeNames(silent)))
	}
	for _, line := range slices.Sorted(maps.Keys(senders)) {
		if lack := without(line); len(lack) > 0 {
			problems = append(problems,
				said("line %s, which %s sends with, is missing at %s: add it there, or they do not hear each other",
					line, nodeNames(senders[line]), nodeNames(lack)))
		}
	}
	if len(senders) > 1 {
		var who []string
		for _, line := range slices.Sorted(maps.Keys(senders)) {
			who = append(who, fmt.Sprintf("%s with %s", nodeNames(senders[line]), line))
		}
		return append(moves, said("nodes send with different lines (%s): remove none before all send with the same",
			strings.Join(who, ", "))), problems
	}
	for _, line := range slices.Sorted(maps.Keys(holders)) {
		switch lack := without(line); {
		case len(senders[line]) > 0:
		case len(lack) > 0:
			moves = append(moves, said("no node sends with line %s, and it is missing at %s: "+
				"if it is new, add it there before any node sends with it; if it is old, remove it at %s too",
				line, nodeNames(lack), nodeNames(holders[line])))
		case len(silent) == 0:
			moves = append(moves, said("all nodes accept line %s and none sends with it: "+
				"the next step is safe, to move it up if it is new, or to remove it if it is old", line))
		}
	}
	return moves, problems
}

func nodeNames(nodes []string) string { return strings.Join(nodes, ", ") }
