package placement

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

// foundersIn returns nodes n1, n2, ... in the given zones.
func foundersIn(zones ...string) []Node {
	var nodes []Node
	for i, zone := range zones {
		nodes = append(nodes, Node{ID: "n" + string(rune('1'+i)), Zone: zone})
	}
	return nodes
}

func loadsAndLeads(t *Table) (loads, leads map[string]int) {
	loads, leads = map[string]int{}, map[string]int{}
	for i := range t.Groups {
		leads[t.Groups[i].Lead]++
		for _, r := range t.Groups[i].Replicas {
			loads[r.Node]++
		}
	}
	return loads, leads
}

func TestTheFirstTableIsEven(t *testing.T) {
	for _, c := range []struct {
		nodes, replicas, voters int
	}{{1, 3, 1}, {2, 3, 1}, {3, 3, 3}, {4, 3, 3}, {5, 3, 3}, {5, 5, 5}, {6, 5, 5}, {5, 4, 3}, {3, 1, 1}, {4, 2, 1}} {
		table := NewTable("c", foundersIn(make([]string, c.nodes)...), 16, c.replicas)
		loads, leads := loadsAndLeads(table)
		for i := range table.Groups {
			g := &table.Groups[i]
			if got := len(g.Voters()); got != c.voters || len(g.Founders) != c.voters {
				t.Errorf("%d nodes, %d replicas: shard %v has %d voters, want %d",
					c.nodes, c.replicas, g.Shard, got, c.voters)
			}
			for _, r := range g.Replicas {
				if r.Created != (g.Shard == shard.System) {
					t.Errorf("%s: created %t", r.Name(g.Shard), r.Created)
				}
			}
		}
		for _, n := range table.Nodes {
			if l := loads[n.ID]; l < 17*c.voters/c.nodes || l > 17*c.voters/c.nodes+1 {
				t.Errorf("%d nodes, %d replicas: loads %v", c.nodes, c.replicas, loads)
			}
			if l := leads[n.ID]; l < 17/c.nodes || l > 17/c.nodes+1 {
				t.Errorf("%d nodes, %d replicas: leads %v", c.nodes, c.replicas, leads)
			}
		}
		if next, steps := Plan(table, Observed{}); next != nil {
			t.Errorf("%d nodes, %d replicas: the first table is changed at once: %q", c.nodes, c.replicas, steps)
		}
	}
}

func TestTheFirstTableUsesAllZones(t *testing.T) {
	table := NewTable("c", foundersIn("a", "a", "b", "b", "c"), 8, 3)
	for i := range table.Groups[:8] {
		g, zones := &table.Groups[i], map[string]bool{}
		for _, r := range g.Replicas {
			zones[table.Node(r.Node).Zone] = true
		}
		if len(zones) != 3 {
			t.Errorf("shard %v is in zones %v", g.Shard, zones)
		}
	}
}

func TestTheFoundersKnowTheSystemVotersWithoutATable(t *testing.T) {
	founders := []string{"c", "d", "a", "b"}
	names := SystemVoters(founders, 3)
	if want := []string{"a/4294967295/1", "b/4294967295/1", "c/4294967295/1"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if founders[0] != "c" {
		t.Error("the caller's list was sorted")
	}
	table := NewTable("c", []Node{{ID: "c"}, {ID: "d"}, {ID: "a"}, {ID: "b"}}, 2, 3)
	var listed []string
	for _, r := range table.Group(shard.System).Voters() {
		listed = append(listed, r.Name(shard.System))
	}
	if !slices.Equal(names, listed) {
		t.Errorf("the table lists %v", listed)
	}
}

func TestATableIsReadAsItWasWritten(t *testing.T) {
	table := NewTable("c", foundersIn("a", "b", "c"), 4, 3).ApplyWanted(5)
	table.Groups[1].Number, table.NextNumber = 7, 9
	for i := range table.Groups[1].Replicas {
		table.Groups[1].Replicas[i].Number = 7
	}
	table.Moves = []Move{{Move: shard.Move{Slot: 3, To: 1, Generation: 4}, Back: true}}
	b := table.Encode()
	got, err := DecodeTable(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, table) || string(got.Encode()) != string(b) {
		t.Errorf("got %+v, want %+v", got, table)
	}
}

func moves(from, to shard.ID) []Move { return []Move{{Move: shard.Move{From: from, To: to}}} }

func TestWhatNoTableCanBeIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Table)
		want  string
	}{
		{"cluster", func(t *Table) { t.Cluster = "" }, "names no cluster"},
		{"shards", func(t *Table) { t.Shards = 0 }, "0 shards"},
		{"replicas", func(t *Table) { t.Replicas = 0 }, "0 replicas"},
		{"next number", func(t *Table) { t.NextNumber = 1 }, "next replica's number is 1"},
		{"node without id", func(t *Table) { t.Nodes[0].ID = "" }, "no id"},
		{"node state", func(t *Table) { t.Nodes[0].State = 9 }, `"n1": unknown state 9`},
		{"node twice", func(t *Table) { t.Nodes[1].ID = "n1" }, `node "n1" follows "n1"`},
		{"no group", func(t *Table) { t.Groups = t.Groups[:4] }, "shard system has no group"},
		{"group missing", func(t *Table) { t.Groups = slices.Delete(t.Groups, 1, 2) },
			"shard 2 stands in the place of shard 1's"},
		{"too many groups", func(t *Table) { t.Groups = append(t.Groups, Group{}) }, "have 6 groups"},
		{"lead", func(t *Table) { t.Groups[0].Lead = "x" }, `shard 0: node "x" should lead`},
		{"founder", func(t *Table) { t.Groups[0].Founders[0] = "x" }, `founder "x"`},
		{"unknown node", func(t *Table) { t.Groups[2].Replicas[0].Node = "x" },
			"replica x/2/1: its node is not listed"},
		{"removed node", func(t *Table) { t.Nodes[0].State = NodeRemoved }, "its node was removed"},
		{"role", func(t *Table) { t.Groups[0].Replicas[0].Role = 7 }, "unknown role 7"},
		{"replica twice", func(t *Table) { t.Groups[0].Replicas[1] = t.Groups[0].Replicas[0] },
			"n1/0/1 is listed twice"},
		{"number not given", func(t *Table) { t.Groups[0].Replicas[0].Number = 2 }, "next number is 2"},
		{"number 0", func(t *Table) { t.Groups[0].Replicas[0].Number = 0 }, "cannot have this one"},
		{"number twice", func(t *Table) {
			t.NextNumber = 9
			t.Groups[0].Replicas[0].Number = 5
			t.Groups[1].Replicas[1].Number = 5
		}, "number 5 is given twice, here and in shard 0"},
		{"no voter", func(t *Table) { t.Groups[0].Replicas = nil }, "shard 0: it has no voter"},
		{"founders' number", func(t *Table) { t.Groups[0].Number = 2 }, "its founders cannot have 2"},
		{"wanted shards", func(t *Table) { t.Wanted = 1025 }, "1025 shards are wanted"},
		{"move to no shard", func(t *Table) { t.Moves = moves(0, 4) }, "slot 0 moves from shard 0 to shard 4"},
		{"move to itself", func(t *Table) { t.Moves = moves(0, 0) }, "slot 0 moves from shard 0 to shard 0"},
		{"move from elsewhere", func(t *Table) { t.Moves = moves(1, 2) }, "and is on shard 0"},
		{"slot moves twice", func(t *Table) { t.Moves = append(moves(0, 1), moves(0, 2)...) }, "slot 0 moves twice"},
	} {
		table := NewTable("c", foundersIn("", "", ""), 4, 3)
		c.spoil(table)
		if _, err := DecodeTable(table.Encode()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %q", c.name, err, c.want)
		}
	}
	if _, err := DecodeTable([]byte("{")); err == nil {
		t.Error("half a document was read")
	}
}

func FuzzDecodeTable(f *testing.F) {
	f.Add(NewTable("c", foundersIn("a", "b", "c"), 4, 3).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := DecodeTable(b)
		if err != nil {
			return
		}
		again, err := DecodeTable(table.Encode())
		if err != nil || string(again.Encode()) != string(table.Encode()) {
			t.Errorf("a table that was read is not the same, written and read: %v", err)
		}
		Plan(table, Observed{})
	})
}

func TestACloneSharesNothing(t *testing.T) {
	table := NewTable("c", foundersIn("a", "b", "c"), 2, 3)
	table.Moves = moves(0, 1)
	before := string(table.Encode())
	c := table.Clone()
	c.Nodes[0].Zone = "x"
	c.Groups[0].Lead = "x"
	c.Groups[0].Founders[0] = "x"
	c.Groups[0].Replicas[0].Lost = true
	c.Moves[0].Back = true
	if string(table.Encode()) != before {
		t.Error("the clone's changes are in the original")
	}
}

func TestReplicasAreFound(t *testing.T) {
	table := NewTable("c", foundersIn("", "", ""), 2, 3)
	g := table.Group(1)
	g.Replicas[0].Lost = true
	g.Replicas = append(g.Replicas, Replica{Node: "n1", Number: 7})
	if r := table.ReplicaOf(1, "n1"); r == nil || r.Number != 7 {
		t.Errorf("the newest replica of n1 is %+v", r)
	}
	if r := table.Replica(1, "n1", 1); r == nil || !r.Lost {
		t.Errorf("the lost replica of n1 is %+v", r)
	}
	if table.ReplicaOf(1, "n9") != nil || table.ReplicaOf(9, "n1") != nil || table.Replica(9, "n1", 1) != nil ||
		table.Replica(1, "n1", 2) != nil || table.Node("n9") != nil || table.Group(9) != nil {
		t.Error("what is not listed was found")
	}
}

// TestRecordsOnlyGoForward: a record that comes late or twice changes nothing.
func TestRecordsOnlyGoForward(t *testing.T) {
	table := NewTable("c", foundersIn("", "", ""), 1, 3)
	if table = table.ApplyCreated(0, "n1", 1); !table.Replica(0, "n1", 1).Created ||
		table.ApplyCreated(0, "n1", 1) != nil {
		t.Error("created")
	}
	if table = table.ApplyLost(0, "n1", 1); !table.Replica(0, "n1", 1).Lost || table.ApplyLost(0, "n1", 1) != nil {
		t.Error("lost")
	}
	if table.ApplyVoter(0, "n1", 1) != nil || table.ApplyGone(0, "n1", 1) != nil {
		t.Error("a voter is no learner and does not go before it is leaving")
	}
	table.Replica(0, "n1", 1).Role = Learner
	if table = table.ApplyVoter(0, "n1", 1); table.Replica(0, "n1", 1).Role != Voter {
		t.Error("voter")
	}
	table.Replica(0, "n1", 1).Role = Leaving
	if table.ApplyVoter(0, "n1", 1) != nil {
		t.Error("who is leaving became a voter")
	}
	if table = table.ApplyGone(0, "n1", 1); table.Replica(0, "n1", 1) != nil || table.ApplyGone(0, "n1", 1) != nil ||
		table.ApplyCreated(0, "n1", 1) != nil || table.ApplyLost(0, "n1", 1) != nil {
		t.Error("gone")
	}
	if table = table.ApplyNodeState("n2", NodeDraining); table.ApplyNodeState("n2", NodeDraining) != nil {
		t.Error("draining twice")
	}
	table = table.ApplyNodeState("n2", NodeActive).ApplyNodeState("n2", NodeLeaving)
	if table.ApplyNodeState("n2", NodeActive) != nil || table.ApplyNodeState("n9", NodeActive) != nil {
		t.Error("a leaving node stays, or an unknown one comes")
	}
}

func TestReplicaNamesAreTakenApartFromTheEnd(t *testing.T) {
	r, id, err := ParseName("rack/a/3/7")
	if (r != Replica{Node: "rack/a", Number: 7}) || id != 3 || err != nil {
		t.Errorf("%+v, %d, %v", r, id, err)
	}
	for _, name := range []string{"", "n1", "3/7", "/3/7", "n1/x/7", "n1/3/x", "n1/3/", "n1/4294967296/7"} {
		if _, _, err := ParseName(name); err == nil {
			t.Errorf("%q is taken for a replica's name", name)
		}
	}
}
