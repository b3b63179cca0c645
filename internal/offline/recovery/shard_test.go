package recovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// replicasOf describes replicas "node/0/n" by their last term and index. All of them are voters.
func replicasOf(ends ...[2]uint64) (all []Replica) {
	var names []string
	for i, end := range ends {
		replica := raftfsm.Replica{Number: uint64(i + 1)}
		node := fmt.Sprint("n", i+1)
		all = append(all, Replica{Node: node, Survivor: raftfsm.Survivor{Replica: replica, Name: replica.Name(node),
			Term: end[0], Index: end[1]}})
		names = append(names, replica.Name(node))
	}
	for i := range all {
		all[i].Newest = raftfsm.Voters{Index: 1, Names: names}
	}
	return all
}

func tableFor(replicas []Replica) *placement.Table {
	g := placement.Group{}
	for _, r := range replicas {
		g.Replicas = append(g.Replicas, placement.Replica{Node: r.Node, Number: r.Number, Role: placement.Voter})
	}
	return &placement.Table{Groups: []placement.Group{g}}
}

// TestTheChoiceOfAReplica walks through what speaks for and against one.
func TestTheChoiceOfAReplica(t *testing.T) {
	sums := func(sum uint64) []shard.SumAt {
		return []shard.SumAt{{Version: shard.SumVersion, Epoch: 1, Seq: 9, Sum: sum}}
	}
	names := func(n ...int) (all []string) {
		for _, i := range n {
			all = append(all, fmt.Sprintf("n%d/0/%d", i, i))
		}
		return all
	}
	for what, c := range map[string]struct {
		ends   [][2]uint64
		keep   []int // positions of the replicas that are found; nil: all
		change func(all []Replica, t *placement.Table)
		chosen string
		exact  bool
		lost   string
	}{
		"the longest log of the newest term": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3",
			exact: true},
		"a majority is enough": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 1},
			chosen: "n2/0/2", exact: true},
		"a minority is not": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0},
			chosen: "n1/0/1", lost: "2 are missing"},
		"half is not": {ends: [][2]uint64{{2, 50}, {3, 20}}, keep: []int{0}, chosen: "n1/0/1", lost: "1 are missing"},
		"a forgetful one does not count": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 2},
			chosen: "n1/0/1", lost: "2 are missing or suspect", change: func(all []Replica, _ *placement.Table) {
				all[2].Forgetful = "torn"
			}},
		"a forgetful one is the last": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{2}, chosen: "n3/0/3",
			lost: "forgot nothing", change: func(all []Replica, _ *placement.Table) { all[2].Forgetful = "torn" }},
		"a convicted one is nothing": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{2},
			lost: "no replica is left", change: func(all []Replica, _ *placement.Table) { all[2].Convicted = "bits" }},
		"an unreadable one is nothing": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{0, 1, 2},
			chosen: "n2/0/2", exact: true, change: func(all []Replica, _ *placement.Table) {
				all[2].Unreadable = "corrupt"
			}},
		"one that the table says is lost": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n2/0/2", exact: true,
			change: func(_ []Replica, t *placement.Table) { t.Groups[0].Replicas[2].Lost = true }},
		"the lost one does not count": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{1, 2},
			chosen: "n2/0/2", lost: "2 are missing or suspect", change: func(_ []Replica, t *placement.Table) {
				t.Groups[0].Replicas[2].Lost = true
			}},
		"a majority has another sum": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n2/0/2", exact: true,
			change: func(all []Replica, _ *placement.Table) {
				all[0].Sums, all[1].Sums, all[2].Sums = sums(7), sums(7), sums(8)
			}},
		"sums without a majority": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, keep: []int{1, 2}, chosen: "n3/0/3",
			lost: "no majority", change: func(all []Replica, _ *placement.Table) {
				for i := range all {
					all[i].Epoch, all[i].Seq = 1, 9
				}
				all[1].Sums, all[2].Sums = sums(7), sums(8)
			}},
		"the configuration before had others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3",
			lost: "the configuration before, 2 are missing", change: func(all []Replica, _ *placement.Table) {
				all[2].Previous = raftfsm.Voters{Index: 1, Names: names(3, 4, 5)}
			}},
		"the newest configuration has others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3",
			lost: "the newest configuration, 2 are missing", change: func(all []Replica, _ *placement.Table) {
				all[2].Newest, all[2].Previous = raftfsm.Voters{Index: 20, Names: names(3, 4, 5)}, all[2].Newest
			}},
		"the table has others": {ends: [][2]uint64{{2, 50}, {3, 20}, {3, 21}}, chosen: "n3/0/3",
			lost: "the table, 2 are missing", change: func(_ []Replica, t *placement.Table) {
				t.Groups[0].Replicas[0].Number, t.Groups[0].Replicas[1].Number = 11, 12
			}},
	} {
		all := replicasOf(c.ends...)
		table := tableFor(all)
		if c.change != nil {
			c.change(all, table)
		}
		s := Shard{Replicas: all}
		if c.keep != nil {
			s.Replicas = nil
			for _, i := range c.keep {
				s.Replicas = append(s.Replicas, all[i])
			}
		}
		s.choose(table)
		if s.Chosen != c.chosen || s.Exact != c.exact || !strings.Contains(s.Lost, c.lost) ||
			s.Exact != (s.Lost == "") {
			t.Errorf("%s: chose %q, exact %v, lost %q", what, s.Chosen, s.Exact, s.Lost)
		}
	}
}
