package placement

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// settled returns the first table of a cluster, with all replicas created.
func settled(shards uint32, replicas int, zones ...string) *Table {
	t := NewTable("c", foundersIn(zones...), shards, replicas)
	for i := range t.Groups {
		for j := range t.Groups[i].Replicas {
			t.Groups[i].Replicas[j].Created = true
		}
	}
	return t
}

func silent(d time.Duration, nodes ...string) Observed {
	seen := Observed{Grace: planGrace, Silent: map[string]time.Duration{}}
	for _, n := range nodes {
		seen.Silent[n] = d
	}
	return seen
}

// planned plans once and expects steps that contain the texts of want. Without want it expects nothing to do.
func planned(t *testing.T, table *Table, seen Observed, want ...string) *Table {
	t.Helper()
	next, steps := Plan(table, seen)
	if all := strings.Join(steps, "\n"); len(want) == 0 && next != nil {
		t.Fatalf("there is nothing to do, and it did: %s", all)
	}
	for _, w := range want {
		if !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, w) }) {
			t.Fatalf("no step %q in %q", w, steps)
		}
	}
	return next
}

func TestNodesThatGossipAndAnswerAreRegistered(t *testing.T) {
	table := settled(2, 1, "", "")
	table.Nodes = append(table.Nodes, Node{ID: "n3", State: NodeRemoved},
		Node{ID: "n9", State: NodeRemoved, Zone: "z", Incarnation: 1})
	number := table.NextNumber
	seen := Observed{Members: []gossip.Member{
		{Node: "n0", Cluster: "c", State: gossip.MemberAlive, Zone: "z", Version: "1", APIAddr: "a", PeerAddr: "p",
			GossipAddr: "g"},
		{Node: "n1", Cluster: "c", State: gossip.MemberAlive},
		{Node: "n2", Cluster: "c", State: gossip.MemberAlive, PeerAddr: "elsewhere:1"},
		{Node: "n3", Cluster: "c", State: gossip.MemberAlive, PeerAddr: "back:1"},
		{Node: "n4", Cluster: "other", State: gossip.MemberAlive},
		{Node: "n5", Cluster: "", State: gossip.MemberAlive},
		{Node: "n6", Cluster: "c", State: gossip.MemberSuspect},
		{Node: "n7", Cluster: "c", State: gossip.MemberLeft},
		// has never answered: it may have the gossip key but no certificate
		{Node: "n8", Cluster: "c", State: gossip.MemberAlive},
		{Node: "n9", Cluster: "c", State: gossip.MemberAlive, PeerAddr: "new:1"},
	}, Reports: map[string]Report{"n0": {}, "n2": {Life: "l", At: "elsewhere:1", Fresh: true}, "n3": {At: "back:1"},
		"n4": {}, "n5": {}, "n6": {}, "n7": {}, "n9": {Fresh: true}}}
	next := planned(t, table, seen, "node n0 registered", `node n2 announces peer address "elsewhere:1"`)
	if want := (Node{ID: "n0", Zone: "z", Version: "1", APIAddr: "a", PeerAddr: "p",
		GossipAddr: "g"}); *next.Node("n0") != want {
		t.Errorf("registered %+v, want %+v", *next.Node("n0"), want)
	}
	if want := (Node{ID: "n9", PeerAddr: "new:1", Incarnation: number}); *next.Node("n9") != want ||
		next.NextNumber <= number {
		t.Errorf("admitted again %+v, want %+v; the next number is %d", *next.Node("n9"), want, next.NextNumber)
	}
	if len(next.Nodes) != 5 || next.Node("n3").State != NodeRemoved || next.Node("n3").PeerAddr != "" {
		t.Errorf("nodes %+v", next.Nodes)
	}
	if _, err := DecodeTable(next.Encode()); err != nil {
		t.Error(err)
	}
}

// Gossip may hear a second process under the id of a node. The table keeps the one that answers.
func TestTheTableKeepsTheProcessThatAnswers(t *testing.T) {
	table := settled(1, 3, "", "", "")
	heard := []gossip.Member{{Node: "n2", Cluster: "c", State: gossip.MemberAlive, PeerAddr: "second:1"}}
	for _, c := range []struct {
		reports map[string]Report
		moves   bool
	}{
		{nil, false},
		{map[string]Report{"n2": {Life: "first", At: "first:1"}}, false},
		{map[string]Report{"n2": {Life: "second"}}, false}, // it does not know yet whether there is another one
		{map[string]Report{"n2": {Life: "second", At: "second:1"}}, true},
	} {
		if next, _ := Plan(table, Observed{Members: heard, Reports: c.reports}); (next != nil) != c.moves {
			t.Errorf("%v: moves %v", c.reports, next != nil)
		}
	}
}

func TestASilentNodeIsReplacedAfterItsGrace(t *testing.T) {
	table := settled(1, 3, "", "", "", "")
	var holder, spare string
	for _, n := range table.Nodes {
		if table.ReplicaOf(0, n.ID) == nil {
			spare = n.ID
		} else if table.ReplicaOf(shard.System, n.ID) != nil {
			holder = n.ID
		}
	}
	for i := range table.Groups { // another node leads, so that only replicas change
		for _, r := range table.Groups[i].Replicas {
			if r.Node != holder {
				table.Groups[i].Lead = r.Node
			}
		}
	}
	table = planOr(table, silent(planGrace, holder))
	planned(t, table, silent(planGrace, holder))
	next := planned(t, table, silent(planGrace+1, holder),
		"shard 0: replica on "+spare+" added to replace "+holder+"'s")
	added := next.ReplicaOf(0, spare)
	if added == nil || added.Role != Learner || added.Number < 2 || added.Number >= next.NextNumber {
		t.Fatalf("added %+v", added)
	}
	planned(t, next, silent(planGrace+1, holder)) // the learner catches up; until then no replica leaves
	next = next.ApplyCreated(0, spare, added.Number).ApplyVoter(0, spare, added.Number)
	next = planned(t, next, silent(planGrace+1, holder), "shard 0: replica on "+holder+" leaves")
	if r := next.ReplicaOf(0, holder); r.Role != Leaving {
		t.Errorf("it is %+v", r)
	}
}

func planOr(table *Table, seen Observed) *Table {
	if next, _ := Plan(table, seen); next != nil {
		return next
	}
	return table
}

func TestALostReplicaIsReplacedOnItsOwnNode(t *testing.T) {
	table := settled(1, 3, "", "", "").ApplyLost(0, "n2", 1)
	next := planned(t, table, Observed{}, "shard 0: replica on n2 leaves")
	planned(t, next.ApplyGone(0, "n2", 1), Observed{}, "shard 0: replica on n2 added, for 3 voters")
}

func TestALearnerThatDiesIsGivenUp(t *testing.T) {
	table := settled(1, 3, "", "", "").ApplyLost(0, "n2", 1)
	table = planned(t, planned(t, table, Observed{}, "leaves").ApplyGone(0, "n2", 1), Observed{}, "added")
	planned(t, table.ApplyLost(0, "n2", 2), Observed{}, "shard 0: new replica on n2 given up")
}

func TestNothingIsAddedWithoutAMajority(t *testing.T) {
	table := settled(1, 3, "", "", "", "", "")
	g := table.Group(0)
	seen := silent(time.Hour, g.Replicas[0].Node, g.Replicas[1].Node)
	if next, _ := Plan(table, seen); next != nil && len(next.Group(0).Replicas) != 3 {
		t.Errorf("replicas %+v", next.Group(0).Replicas)
	}
}

func TestNobodyLeavesBelowTheQuorum(t *testing.T) {
	table := settled(1, 3, "", "", "", "")
	g := table.Group(0)
	spare := table.Nodes[slices.IndexFunc(table.Nodes, func(n Node) bool { return table.ReplicaOf(0, n.ID) == nil })].ID
	g.Replicas = append(g.Replicas, Replica{Node: spare, Number: 2, Role: Voter, Created: true}) // one too many
	table.NextNumber = 3
	for _, c := range []struct {
		silent int
		leaves bool
	}{{0, true}, {1, true}, {2, false}} {
		var nodes []string
		for _, r := range g.Replicas[:c.silent] {
			nodes = append(nodes, r.Node)
		}
		left := ""
		if next, _ := Plan(table, silent(time.Second, nodes...)); next != nil {
			for _, r := range next.Group(0).Replicas {
				if r.Role == Leaving {
					left += r.Node
				}
			}
		}
		if (left != "") != c.leaves || c.silent == 1 && left != nodes[0] {
			t.Errorf("%v are silent: %q leaves", nodes, left)
		}
	}
}

func TestAGroupDoesNotGrowToAnEvenNumber(t *testing.T) {
	table := settled(1, 3, "", "")
	table.Nodes = append(table.Nodes, Node{ID: "n3"})
	if next, _ := Plan(table, silent(time.Hour, "n3")); next != nil && len(next.Group(0).Replicas) != 1 {
		t.Errorf("n3 is dead, and the group has %+v", next.Group(0).Replicas)
	}
	planned(t, table, Observed{}, "shard 0: replica on n", "for 3 voters")
}

func TestZonesAreFilledFirst(t *testing.T) {
	table := settled(4, 3, "a", "b", "c")
	table.Nodes = append(table.Nodes, Node{ID: "n4", Zone: "a"}, Node{ID: "n5", Zone: "b"}, Node{ID: "n6", Zone: "c"})
	table = table.ApplyNodeState("n2", NodeLeaving)
	next := planned(t, table, Observed{}, "shard 0: replica on n5 added to replace n2's")
	if next.ReplicaOf(1, "n5") == nil {
		t.Error("shard 1: zone b has nothing of it, and still has not")
	}
}

func TestFourLearnersAtMost(t *testing.T) {
	table := settled(16, 3, "", "", "")
	table.Nodes = append(table.Nodes, Node{ID: "n4"})
	next := planned(t, table.ApplyNodeState("n1", NodeLeaving), Observed{}, "system shard: replica on n4 added")
	learners := 0
	for i := range next.Groups {
		for _, r := range next.Groups[i].Replicas {
			if r.Role == Learner {
				learners++
			}
		}
	}
	if learners != 4 {
		t.Errorf("%d learners, want 4", learners)
	}
}

func TestWhoMayNotLead(t *testing.T) {
	for _, c := range []struct {
		name  string
		table func(*Table) *Table
		seen  Observed
		leads bool
	}{
		{"all well", func(t *Table) *Table { return t }, Observed{}, true},
		{"silent for 2 s", func(t *Table) *Table { return t }, silent(2*time.Second, "n1"), true},
		{"silent for longer", func(t *Table) *Table { return t }, silent(2*time.Second+1, "n1"), false},
		{"stopping", func(t *Table) *Table { return t }, Observed{Reports: map[string]Report{"n1": {Stopping: true}}},
			false},
		{"out of disk", func(t *Table) *Table { return t }, Observed{Reports: map[string]Report{"n1": {Full: true}}},
			false},
		{"draining", func(t *Table) *Table { return t.ApplyNodeState("n1", NodeDraining) }, Observed{}, false},
		{"leaving", func(t *Table) *Table { return t.ApplyNodeState("n1", NodeLeaving) }, Observed{}, false},
		{"lost", func(t *Table) *Table {
			for i := range t.Groups {
				t = t.ApplyLost(t.Groups[i].Shard, "n1", 1)
			}
			return t
		}, Observed{}, false},
	} {
		table := planOr(c.table(settled(5, 3, "", "", "")), c.seen)
		_, leads := loadsAndLeads(table)
		if want := map[bool]map[string]int{true: {"n1": 2, "n2": 2, "n3": 2},
			false: {"n2": 3, "n3": 3}}[c.leads]; leads["n1"] !=
			want["n1"] || leads["n2"] != want["n2"] || leads["n3"] != want["n3"] {
			t.Errorf("%s: leads %v, want %v", c.name, leads, want)
		}
	}
}

// TestFewLeadsMove: six groups have leads on three nodes. When one node must not lead, two leads move, and later two
// move back.
func TestFewLeadsMove(t *testing.T) {
	table := settled(5, 3, "", "", "")
	moved := func(next *Table) (n int) {
		for i := range next.Groups {
			if next.Groups[i].Lead != table.Groups[i].Lead {
				n++
			}
		}
		table = next
		return n
	}
	if n := moved(planOr(table, silent(3*time.Second, "n2"))); n != 2 {
		t.Errorf("%d leads moved off n2, want 2", n)
	}
	if n := moved(planOr(table, Observed{})); n != 2 {
		t.Errorf("%d leads moved back, want 2", n)
	}
}

// TestBusyShardsAreLedByDifferentNodes: neither the system shard nor one that is to have no slots makes up for one with.
func TestBusyShardsAreLedByDifferentNodes(t *testing.T) {
	table := settled(3, 3, "", "", "")
	for i, lead := range []string{"n1", "n3", "n1", "n2"} { // the last group is of the system shard
		table.Groups[i].Lead = lead
	}
	planned(t, table, Observed{}, "shard 0: n2 should lead instead of n1")
	for i, lead := range []string{"n1", "n1", "n2", "n3"} {
		table.Groups[i].Lead = lead
	}
	table.Wanted = 2
	next := planOr(table, Observed{})
	if a, b := next.Groups[0].Lead, next.Groups[1].Lead; a == b {
		t.Errorf("%s should lead both shards with slots", a)
	}
}

// TestWhoLeadsAlreadyIsPreferred: after a failover, the elected leader keeps the group if the counts allow it.
func TestWhoLeadsAlreadyIsPreferred(t *testing.T) {
	table := settled(3, 3, "", "", "")
	g := table.Groups[0]
	for _, elected := range []string{"n1", "n2", "n3"} {
		if elected == g.Lead {
			continue
		}
		seen := silent(3*time.Second, g.Lead)
		seen.Reports = map[string]Report{
			elected: {Replicas: []ReplicaReport{{Shard: 0, Number: 1, Leading: true, Epoch: 9}}}}
		if next := planOr(table, seen); next.Groups[0].Lead != elected {
			t.Errorf("%s was elected, %s should lead", elected, next.Groups[0].Lead)
		}
	}
}

func TestALeadWaitsForAChangeUnderWay(t *testing.T) {
	table := settled(5, 3, "", "", "")
	for i := range table.Groups {
		table.Groups[i].Lead = "n1"
		table.Groups[i].Replicas = append(table.Groups[i].Replicas, Replica{Node: "n4", Number: table.NextNumber})
		table.NextNumber++
	}
	table.Nodes = append(table.Nodes, Node{ID: "n4"})
	planned(t, table, Observed{})
	planned(t, table, silent(3*time.Second, "n1"), "shard 0: n2 should lead instead of n1")
}

// TestThreeFourThree: a fourth node joins and gets its share; then one of the first is removed, and three nodes share
// everything again. Nothing moves unnecessarily.
func TestThreeFourThree(t *testing.T) {
	w := newPlanWorld(t, rand.New(rand.NewPCG(1, 2)), 3, 0, 8, 3)
	w.settle()
	for i := range w.truth.Groups {
		if n := len(w.truth.Groups[i].Voters()); n != 3 {
			t.Fatalf("shard %v has %d voters", w.truth.Groups[i].Shard, n)
		}
	}
	w.join(0)
	w.settle()
	w.checkRest()
	if loads, _ := loadsAndLeads(w.truth); loads["n4"] != 6 {
		t.Errorf("n4 has %d of 27 replicas, want 6: a seventh would not make it more even: %v", loads["n4"], loads)
	}
	if moves := w.truth.NextNumber - 2; moves != 6 {
		t.Errorf("%d replicas were made for it, want 6", moves)
	}
	w.operator(w.node("n1"), NodeLeaving)
	w.settle()
	w.checkRest()
	if n := w.truth.Node("n1"); n.State != NodeRemoved || len(w.node("n1").stores) != 0 {
		t.Errorf("n1 is %v and holds %d replicas", n.State, len(w.node("n1").stores))
	}
	if loads, _ := loadsAndLeads(w.truth); loads["n2"] != 9 || loads["n3"] != 9 || loads["n4"] != 9 {
		t.Errorf("loads %v", loads)
	}
}

// TestThreeTwoOne: with two nodes left a group has one voter, and with one node left it still has it.
func TestThreeTwoOne(t *testing.T) {
	w := newPlanWorld(t, rand.New(rand.NewPCG(1, 2)), 3, 0, 4, 3)
	w.settle()
	for _, node := range []string{"n1", "n3"} {
		w.operator(w.node(node), NodeLeaving)
		w.settle()
		w.checkRest()
		for i := range w.truth.Groups {
			if n := len(w.truth.Groups[i].Replicas); n != 1 {
				t.Errorf("without %s shard %v has %d replicas", node, w.truth.Groups[i].Shard, n)
			}
		}
	}
	w.operator(w.node("n2"), NodeLeaving) // the last node has no place for its replicas
	w.settle()
	if n := w.truth.Node("n2"); n.State != NodeLeaving || !w.systemWorks() {
		t.Errorf("the last node is %v", n.State)
	}
}

func TestALeavingNodeLetsItsClientsGoBeforeItIsRemoved(t *testing.T) {
	table := NewTable("c", foundersIn("a", "b"), 1, 1)
	table.Nodes = append(table.Nodes, Node{ID: "z", State: NodeLeaving})
	if !table.Left("z") || table.Left("n1") {
		t.Error("it is not known who has left")
	}
	if next, _ := Plan(table, Observed{Lingers: map[string]bool{"z": true}}); next != nil &&
		next.Node("z").State != NodeLeaving {
		t.Error("it is removed while it lingers")
	}
	if next, _ := Plan(table, Observed{}); next == nil || next.Node("z").State != NodeRemoved {
		t.Error("it is not removed after that")
	}
}
