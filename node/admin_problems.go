package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// statusProblems lists the problems that an operator should look at. What others follow from comes first.
func statusProblems(s *stintv1.StatusResponse) (problems []string) {
	for _, node := range s.Nodes {
		if m := node.Machine; m.GetDiskFull() && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s: %d MiB free: it takes no writes",
				node.Id, m.DiskFree>>20))
		}
	}
	for _, node := range s.Nodes {
		if !node.Alive && node.State != "removed" {
			problems = append(problems, fmt.Sprintf("node %s has not answered for %v", node.Id,
				node.Silent.AsDuration().Round(time.Second)))
		}
		ahead := node.ClockAhead.AsDuration().Round(time.Millisecond)
		if ahead.Abs() > clockOffMost && node.State != "removed" {
			problems = append(problems,
				fmt.Sprintf("node %s's clock is %v ahead of this node's (behind, if negative): "+
					"a shard whose voters' clocks do not agree begins no epoch", node.Id, ahead))
		}
	}
	for _, one := range s.Shards {
		if one.Owner == "" {
			problems = append(problems, fmt.Sprintf("shard %s has no owner", one.Name))
		}
		for _, r := range one.Replicas {
			if r.Lost {
				problems = append(problems, fmt.Sprintf("shard %s: the replica on %s is lost", one.Name, r.Node))
			}
		}
	}
	return problems
}

// clockOffMost is how far two clocks may be apart before an operator should know.
const clockOffMost = 200 * time.Millisecond

// twiceProblems lists the node ids that several processes use.
func twiceProblems(reports map[string]placement.Report) (problems []string) {
	for _, report := range reports {
		problems = append(problems, report.Twice...)
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// levelProblems lists the nodes that answer but cannot read what the cluster writes: they are given no replicas.
func levelProblems(t *placement.Table, reports map[string]placement.Report) (problems []string) {
	for _, report := range reports {
		if report.Levels.Max < t.Level {
			problems = append(problems,
				fmt.Sprintf("node %s knows feature level %d and the cluster is at %d: "+
					"it is given no replica until it runs a newer release", report.Node, report.Levels.Max, t.Level))
		}
	}
	return problems
}

// reportedProblems lists the problems that nodes report about themselves and that an operator should look at.
func reportedProblems(reports map[string]placement.Report) []string {
	problems := append(stopProblems(reports), capProblems(reports)...)
	for _, report := range reports {
		problems = append(problems, report.Problems...)
	}
	slices.Sort(problems)
	return problems
}

// stopProblems says for each stopped shard why it stopped and which nodes say so. It also lists replicas with wrong
// records: these need not stop their shard.
func stopProblems(reports map[string]placement.Report) (problems []string) {
	why, saidBy := make(map[shard.ID]string), make(map[shard.ID][]string)
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		for _, r := range reports[node].Replicas {
			switch {
			case r.Stopped == "":
			case r.Diverged:
				problems = append(problems, r.Stopped)
			default: // replicas differ at the same place, as a rule: the first node's text will do
				why[r.Shard] = cmp.Or(why[r.Shard], r.Stopped)
				saidBy[r.Shard] = append(saidBy[r.Shard], node)
			}
		}
	}
	for id, nodes := range saidBy {
		problems = append(problems, fmt.Sprintf("%s (so say %s)", why[id], strings.Join(nodes, ", ")))
	}
	return problems
}

// capProblems lists the policies that have nearly as many keys as they may.
func capProblems(reports map[string]placement.Report) (problems []string) {
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		for _, r := range reports[node].Replicas {
			for _, use := range r.NearCap {
				problems = append(problems,
					fmt.Sprintf("shard %s: policy %s has %d of its %d keys (its part of max_keys) in namespace %s",
						r.Shard, use.Policy, use.Keys, use.MaxKeys, use.Namespace))
			}
		}
	}
	return problems
}
