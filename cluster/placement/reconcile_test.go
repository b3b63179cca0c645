package placement

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/shard"
)

// oneGroup returns a table with one data shard on three nodes, with all replicas created.
func oneGroup() *Table {
	t := NewTable("c", foundersIn("", "", ""), 1, 3)
	for i := range t.Groups[0].Replicas {
		t.Groups[0].Replicas[i].Created = true
	}
	t.NextNumber = 10
	return t
}

func TestANodeDoesWhatTheTableSays(t *testing.T) {
	system := Held{Shard: shard.System, Number: 1, Open: true}
	first := []string{"n1/0/1", "n2/0/1", "n3/0/1"}
	listed := func(change func(*Replica)) func(*Table) {
		return func(t *Table) { change(t.Replica(0, "n1", 1)) }
	}
	newcomer := func(t *Table) {
		t.Groups[0].Replicas[0] = Replica{Node: "n1", Number: 5}
	}
	for _, c := range []struct {
		name  string
		table func(*Table)
		held  []Held
		want  []Action
	}{
		{"all is well", nil, []Held{{Open: true, Number: 1}}, nil},
		{"founding", listed(func(r *Replica) { r.Created = false }), nil,
			[]Action{{Kind: Create, Number: 1, Voters: first}}},
		{"founding late, when others were replaced", func(t *Table) {
			t.Replica(0, "n1", 1).Created = false
			t.Groups[0].Replicas[2] = Replica{Node: "n2", Number: 4, Role: Voter, Created: true}
		}, nil, []Action{{Kind: Create, Number: 1, Voters: first}}},
		{"joining", newcomer, nil, []Action{{Kind: Create, Number: 5}}},
		{"leaving before it began", listed(func(r *Replica) { r.Created, r.Role = false, Leaving }), nil, nil},
		{"created", listed(func(r *Replica) { r.Created = false }), []Held{{Number: 1}},
			[]Action{{Kind: MarkCreated, Number: 1}}},
		{"recorded", nil, []Held{{Number: 1}}, []Action{{Kind: Open, Number: 1}}},
		{"leaving ones vote until they are gone", listed(func(r *Replica) { r.Role = Leaving }), []Held{{Number: 1}},
			[]Action{{Kind: Open, Number: 1}}},
		{"no longer alone", nil, []Held{{Number: 1, Open: true, Lone: true}}, []Action{{Kind: Reopen, Number: 1}}},
		{"alone", func(t *Table) { t.Groups[0].Replicas = t.Groups[0].Replicas[:1] }, []Held{{Number: 1, Open: true}},
			[]Action{{Kind: Reopen, Number: 1, Lone: true}}},
		{"wiped", nil, nil, []Action{{Kind: MarkLost, Number: 1}}},
		{"suspect", nil, []Held{{Number: 1, Broken: true}}, []Action{{Kind: MarkLost, Number: 1}}},
		{"lost and recorded", listed(func(r *Replica) { r.Lost = true }), nil, nil},
		{"suspect data is kept while it is listed", listed(func(r *Replica) { r.Lost = true }),
			[]Held{{Number: 1}}, nil},
		{"lost and running", listed(func(r *Replica) { r.Lost = true }), []Held{{Number: 1, Open: true}},
			[]Action{{Kind: Close, Number: 1}}},
		{"gone, running", newcomer, []Held{{Number: 5}, {Number: 1, Open: true}},
			[]Action{{Kind: MarkCreated, Number: 5}, {Kind: Close, Number: 1}}},
		{"gone", newcomer, []Held{{Number: 5}, {Number: 1}},
			[]Action{{Kind: MarkCreated, Number: 5}, {Kind: Destroy, Number: 1}}},
		{"gone, and evidence", newcomer, []Held{{Number: 5}, {Number: 1, Broken: true, Kept: true}},
			[]Action{{Kind: MarkCreated, Number: 5}}},
		{"newer than the table", nil, []Held{{Number: 1, Open: true}, {Number: 10}, {Number: 11, Open: true}}, nil},
		{"the newer table may be in there", nil, []Held{{Number: 1, Open: true}, {Shard: shard.System, Number: 10}},
			[]Action{{Kind: Open, Shard: shard.System, Number: 10}}},
	} {
		table := oneGroup()
		if c.table != nil {
			c.table(table)
		}
		if got := Reconcile(table, "n1", append(slices.Clone(c.held), system)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestALeaderBringsItsGroupInLine(t *testing.T) {
	three := []GroupMember{{"n1/0/1", true}, {"n2/0/1", true}, {"n3/0/1", true}}
	with := func(m ...GroupMember) []GroupMember { return append(slices.Clone(three), m...) }
	learner := func(r Replica) func(*Table) {
		return func(t *Table) { t.Groups[0].Replicas = append(t.Groups[0].Replicas, r) }
	}
	leaving := func(at ...int) func(*Table) {
		return func(t *Table) {
			for _, i := range at {
				t.Groups[0].Replicas[i].Role = Leaving
			}
		}
	}
	again := func(role Role) func(*Table) {
		return func(t *Table) {
			t.Groups[0].Replicas[2].Role, t.Groups[0].Replicas[2].Lost = role, true
			learner(Replica{Node: "n3", Number: 4, Created: true})(t)
		}
	}
	for _, c := range []struct {
		name    string
		table   func(*Table)
		members []GroupMember
		behind  []string
		want    []string
	}{
		{"nothing to do", nil, three, nil, nil},
		{"not made yet", learner(Replica{Node: "n4", Number: 4}), three, nil, nil},
		{"made", learner(Replica{Node: "n4", Number: 4, Created: true}), three, nil, []string{"add learner n4/0/4"}},
		{"made and lost", learner(Replica{Node: "n4", Number: 4, Created: true, Lost: true}), three, nil, nil},
		{"behind", learner(Replica{Node: "n4", Number: 4, Created: true}), with(GroupMember{"n4/0/4", false}),
			[]string{"n4/0/4"}, nil},
		{"caught up", learner(Replica{Node: "n4", Number: 4, Created: true}), with(GroupMember{"n4/0/4", false}), nil,
			[]string{"promote n4/0/4"}},
		{"caught up, then lost", learner(Replica{Node: "n4", Number: 4, Created: true, Lost: true}),
			with(GroupMember{"n4/0/4", false}), nil, nil},
		{"votes", learner(Replica{Node: "n4", Number: 4, Created: true}), with(GroupMember{"n4/0/4", true}), nil,
			[]string{"record voter n4/0/4"}},
		{"a vote that was recorded and lost", nil, []GroupMember{three[0], three[1], {"n3/0/1", false}}, nil,
			[]string{"promote n3/0/1"}},
		{"a member that was recorded and lost", nil, three[:2], nil, []string{"add learner n3/0/1"}},
		{"leaving", leaving(2), three, nil, []string{"remove n3/0/1"}},
		{"leaving, and another died since", leaving(2), three, []string{"n2/0/1"}, nil},
		{"out", leaving(2), three[:2], nil, []string{"record gone n3/0/1"}},
		{"the leader is leaving", leaving(0), three, nil, []string{"transfer away n3/0/1"}},
		{"the leader is leaving, its heir is behind", leaving(0), three, []string{"n3/0/1"},
			[]string{"transfer away n2/0/1"}},
		{"the leader is leaving, nobody can follow", leaving(0), three, []string{"n2/0/1", "n3/0/1"}, nil},
		{"one change at a time", leaving(1, 2), three, nil, []string{"remove n2/0/1"}},
		{"records do not wait", leaving(1, 2), []GroupMember{three[0], three[2]}, nil,
			[]string{"record gone n2/0/1", "remove n3/0/1"}},
		{"made again, and the lost one still votes", again(Voter), three, nil, nil},
		{"made again, and the lost one is leaving", again(Leaving), with(GroupMember{"n3/0/4", false}), nil,
			[]string{"remove n3/0/1"}},
		{"made again, and the lost one is out", again(Leaving),
			[]GroupMember{three[0], three[1], {"n3/0/4", false}}, nil,
			[]string{"record gone n3/0/1", "promote n3/0/4"}},
		{"gone, and added by an old table", nil, with(GroupMember{"n4/0/9", false}), nil, []string{"stray n4/0/9"}},
		{"newer than the table", nil, with(GroupMember{"n4/0/10", true}), nil, []string{"unknown n4/0/10"}},
		{"no name of ours", nil, with(GroupMember{"n4/1/2", true}, GroupMember{"x", true}), nil,
			[]string{"unknown n4/1/2", "unknown x"}},
	} {
		table := oneGroup()
		table.Nodes = append(table.Nodes, Node{ID: "n4"})
		table.Groups[0].Lead = "n3"
		if c.table != nil {
			c.table(table)
		}
		var got []string
		for _, change := range Align(table, 0, "n1/0/1", c.members,
			func(name string) bool { return !slices.Contains(c.behind, name) }) {
			got = append(got, change.Kind.String()+" "+change.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := Align(oneGroup(), 7, "n1/7/1", three, nil); got != nil {
		t.Errorf("a group that is not listed: %v", got)
	}
}
