package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// allCreated is a table in which all replicas have their stores.
func allCreated(t *Table) *Table {
	t = t.Clone()
	for i := range t.Groups {
		for j := range t.Groups[i].Replicas {
			t.Groups[i].Replicas[j].Created = true
		}
	}
	return t
}

// growTo plans and finishes moves until the table rests. It returns that table and the number of moves.
func growTo(t *testing.T, table *Table, shards uint32) (rests *Table, moves int) {
	t.Helper()
	table = table.ApplyWanted(shards)
	for {
		if next, _ := Plan(table, Observed{}); next != nil {
			table = allCreated(next)
		} else if len(table.Moves) == 0 {
			return table, moves
		}
		switch under := table.Moves; {
		case len(under) > movesMax:
			t.Fatalf("%d moves at once: %+v", len(under), under)
		case len(under) > 0:
			next, found := table.After(under[0].Move)
			if table = table.ApplySlot(under[0].Move, under[0].To, true); found {
				table.Moves = append(table.Moves, next)
			}
			moves++
		}
	}
}

// TestSlotsMoveUntilTheShardsAreEven: the shards get equally many slots with as few moves as that takes, up and down,
// and in few ranges. Each new group has all of its voters.
func TestSlotsMoveUntilTheShardsAreEven(t *testing.T) {
	table := allCreated(NewTable("c", foundersIn("a", "b", "c"), 1, 3))
	for _, c := range []struct {
		shards, there uint32
		moves         int
	}{{1, 1, 0}, {3, 3, 682}, {5, 5, 409}, {2, 5, 614}, {7, 7, 730}, {6, 7, 146}, {1, 7, 853}} {
		var moves int
		if c.shards == table.WantedShards() {
			continue
		}
		table, moves = growTo(t, table, c.shards)
		if moves != c.moves || table.Shards != c.there || table.Moves != nil {
			t.Errorf("to %d shards: %d moves instead of %d, %d groups instead of %d",
				c.shards, moves, c.moves, table.Shards, c.there)
		}
		for id := range table.Shards {
			want := 0
			if id < c.shards {
				want = slot.Count / int(c.shards)
			}
			if n := table.Slots.Owned(id); n < want || n > want+1 || want == 0 && n > 0 {
				t.Errorf("shard %d of %d has %d slots", id, c.shards, n)
			}
			if n := len(table.Slots.Ranges(id)); n > 8 {
				t.Errorf("shard %d of %d has %d ranges of slots", id, c.shards, n)
			}
			if g := table.Group(shard.ID(id)); len(g.Founders) != 3 || len(g.Voters()) != 3 {
				t.Errorf("shard %d has the group %+v", id, g)
			}
		}
		if b := table.Encode(); len(b) > 8<<10 {
			t.Errorf("the table of %d shards has %d bytes", c.shards, len(b))
		}
	}
}

// TestALaterGroupIsFoundedOnce: each founder creates its replica with the same first configuration, one that comes late
// as well. A founder that has only heard of a table from before the group keeps its replica.
func TestALaterGroupIsFoundedOnce(t *testing.T) {
	before := allCreated(NewTable("c", foundersIn("a", "b", "c"), 1, 3))
	table, _ := Plan(before.ApplyWanted(2), Observed{})
	if table == nil || table.Shards != 2 {
		t.Fatalf("planned: %+v", table)
	}
	number := table.Group(1).Number
	if number < before.NextNumber || len(table.Moves) > 0 {
		t.Errorf("number %d, and %d moves to a group that has no replica", number, len(table.Moves))
	}
	voters := []string{fmt.Sprintf("n1/1/%d", number), fmt.Sprintf("n2/1/%d", number), fmt.Sprintf("n3/1/%d", number)}
	check := func(node string) {
		t.Helper()
		actions := Reconcile(table, node, []Held{{Shard: 0, Number: 1, Open: true},
			{Shard: shard.System, Number: 1, Open: true}})
		if len(actions) != 1 || actions[0].Kind != Create || actions[0].Number != number ||
			!slices.Equal(actions[0].Voters, voters) {
			t.Errorf("%s: %+v", node, actions)
		}
	}
	check("n1")
	check("n2")
	table = table.ApplyCreated(1, "n1", number).ApplyCreated(1, "n2", number)
	g := table.Group(1)
	g.Replicas[g.index("n2", number)].Role = Leaving
	check("n3")
	held := []Held{{Shard: 0, Number: 1, Open: true}, {Shard: shard.System, Number: 1, Open: true},
		{Shard: 1, Number: number}}
	if actions := Reconcile(before, "n1", held); len(actions) > 0 {
		t.Errorf("with a table from before the group, n1 does %+v", actions)
	}
}

// TestAGroupIsFoundedWhenAllOfItsVotersCanBe: a node that is away for a moment is waited for.
func TestAGroupIsFoundedWhenAllOfItsVotersCanBe(t *testing.T) {
	table := allCreated(NewTable("c", foundersIn("a", "b", "c"), 1, 3)).ApplyWanted(2)
	silent := Observed{Silent: map[string]time.Duration{"n2": time.Second}, Grace: time.Minute}
	if next, steps := Plan(table, silent); next != nil && next.Shards != 1 {
		t.Errorf("while n2 is away: %q", steps)
	}
}

// TestSlotsMoveWhereGroupsAreWell: none begins to move while a replica of any group is replaced, or when the
// destination has no majority.
func TestSlotsMoveWhereGroupsAreWell(t *testing.T) {
	table, _ := Plan(allCreated(NewTable("c", foundersIn("a", "b", "c"), 1, 3)).ApplyWanted(2), Observed{})
	if next, _ := Plan(table, Observed{}); next != nil {
		t.Errorf("to a group without a majority: %+v", next.Moves)
	}
	table = allCreated(table)
	if next, _ := Plan(table, Observed{}); next == nil || len(next.Moves) != movesMax {
		t.Errorf("to a group that is well: %+v", next)
	}
	g := table.Group(shard.System)
	g.Replicas[0].Role = Leaving
	if next, _ := Plan(table, Observed{}); next != nil && len(next.Moves) > 0 {
		t.Errorf("beside a repair: %+v", next.Moves)
	}
}

// TestALaterShardWasFoundedWithoutSlots: whatever it has by now.
func TestALaterShardWasFoundedWithoutSlots(t *testing.T) {
	table, _ := Plan(allCreated(NewTable("c", foundersIn("a", "b", "c"), 2, 3)).ApplyWanted(4), Observed{})
	table, _ = Plan(allCreated(table), Observed{})
	first := table.Moves[0]
	table = table.ApplyGeneration(first, 1)
	table = table.ApplySlot(table.Moves[0].Move, first.To, true)
	if founded := table.FoundedSlots(); table.Shards != 4 || table.Slots[first.Slot] < 2 || *founded != *slot.Even(2) {
		t.Errorf("%d shards: slot %d is on shard %d, and was on shard %d",
			table.Shards, first.Slot, table.Slots[first.Slot], founded[first.Slot])
	}
}

// TestAMoveThatIsNoLongerWantedIsTakenBack: the slot stays, or goes if it went before.
func TestAMoveThatIsNoLongerWantedIsTakenBack(t *testing.T) {
	table, _ := Plan(allCreated(NewTable("c", foundersIn("a", "b", "c"), 2, 3)).ApplyWanted(3), Observed{})
	table, _ = Plan(allCreated(table), Observed{})
	table, _ = Plan(table.ApplyGeneration(table.Moves[0], 1).ApplyWanted(2), Observed{})
	first, second := table.Moves[0], table.Moves[1]
	if len(table.Moves) != 2 || !first.Back || !second.Back {
		t.Fatalf("%+v", table.Moves)
	}
	if stays := table.ApplySlot(first.Move, first.From, true); len(stays.Moves) != 1 || *stays.Slots != *table.Slots {
		t.Errorf("taken back: %+v", stays.Moves)
	}
	if went := table.ApplySlot(second.Move, second.To, true); went.Slots[second.Slot] != uint32(second.To) {
		t.Errorf("the slot went before: %+v", went.Moves)
	}
}

// TestOtherSlotsMoveWhileSomeWaitForHolds: a slot that waits while its shard answers for it leaves its place to another
// one, but not any number of them.
func TestOtherSlotsMoveWhileSomeWaitForHolds(t *testing.T) {
	table := allCreated(NewTable("c", foundersIn("a", "b", "c"), 2, 3)).ApplyWanted(1)
	for want := movesMax; want < movesMax+asideMax+3; want++ {
		driver := Report{Replicas: []ReplicaReport{{Shard: 0, Leading: true, Epoch: 1}}}
		for i, m := range table.Moves { // the first one waits, too, and is frozen
			driver.Moves = append(driver.Moves, MoveReport{Slot: m.Slot, Waits: "something", Aside: i > 0})
		}
		if next, _ := Plan(table, Observed{Reports: map[string]Report{"n1": driver}}); next != nil {
			table = next
		}
		if n := len(table.Moves); n != min(want, movesMax+asideMax) {
			t.Fatalf("%d moves, want %d: %+v", n, want, table.Moves)
		}
	}
}

// TestASlotDoesNotBeginASecondMove: not even the first one that its shard should give away.
func TestASlotDoesNotBeginASecondMove(t *testing.T) {
	table := allCreated(NewTable("c", foundersIn("a", "b", "c"), 3, 3)).ApplyWanted(1)
	first := table.Slots.Ranges(1)[0].First
	table.Moves = []Move{{Move: shard.Move{Slot: first, From: 1, To: 2}, Back: true}}
	next, _ := Plan(table, Observed{})
	if next == nil || len(next.Moves) != 2 || next.Moves[1].From != 1 || next.Moves[1].Slot == first {
		t.Errorf("beside %+v: %+v", table.Moves, next)
	}
}

// TestRecordsOfMovesAreMadeOnce: what a node records with an old table in mind changes nothing.
func TestRecordsOfMovesAreMadeOnce(t *testing.T) {
	table := allCreated(NewTable("c", foundersIn("a", "b", "c"), 2, 3)).Clone()
	m := Move{Move: shard.Move{Slot: 7, To: 1}}
	table.Moves = []Move{m}
	if table.ApplySlot(shard.Move{Slot: 8, To: 1}, 1, true) != nil {
		t.Error("nothing is to be changed")
	}
	table = table.ApplyGeneration(m, 4)
	if table.ApplyGeneration(m, 5) != nil || table.ApplyGeneration(table.Moves[0], 5) != nil {
		t.Error("it has a generation")
	}
	if table.ApplySlot(m.Move, 1, true) != nil {
		t.Error("that is another move of the slot")
	}
	m = table.Moves[0]
	table = table.ApplySlot(m.Move, 1, false)
	if table.ApplySlot(m.Move, 1, false) != nil || table.Slots[7] != 1 || len(table.Moves) != 1 {
		t.Errorf("slot 7 is on shard %d, moves %+v", table.Slots[7], table.Moves)
	}
	if table = table.ApplySlot(m.Move, 1, true); table.ApplySlot(m.Move, 0, true) != nil {
		t.Error("the move is over")
	}
}

// TestAMoveIsFollowedByAnotherOne: between the same shards, as long as those are uneven, and where the planner would
// begin one: not beside a repair or a move that waits aside.
func TestAMoveIsFollowedByAnotherOne(t *testing.T) {
	table, _ := Plan(allCreated(NewTable("c", foundersIn("a", "b", "c"), 1, 3)).ApplyWanted(3), Observed{})
	table, _ = Plan(allCreated(table), Observed{})
	for _, m := range table.Moves {
		if next, found := table.After(m.Move); !found || next.From != m.From || next.To != m.To ||
			next.Slot == table.Moves[0].Slot || next.Slot == table.Moves[1].Slot {
			t.Errorf("after %+v: %+v", m, next)
		}
	}
	m := table.Moves[0].Move
	for what, change := range map[string]func(*Table){
		"beside a repair":       func(t *Table) { t.Group(shard.System).Replicas[0].Role = Leaving },
		"beside one that waits": func(t *Table) { t.Moves = append(t.Moves, Move{Move: shard.Move{Slot: 9, To: 1}}) },
		"when it is not listed": func(t *Table) { t.Moves = t.Moves[1:] },
		"when it is no longer asked": func(t *Table) {
			t.Wanted = 1
		},
	} {
		changed := table.Clone()
		if change(changed); changed.Moves[0].To != m.To && what != "when it is not listed" {
			t.Fatalf("%+v", changed.Moves)
		}
		if next, found := changed.After(m); found {
			t.Errorf("%s: %+v", what, next)
		}
	}
}
