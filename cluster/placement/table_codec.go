package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Encode writes the table as JSON. Equal tables have equal bytes.
func (t *Table) Encode() []byte { return encode(t) }

// encode writes a document as JSON.
func encode(document any) []byte {
	b, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("cluster: a document that cannot be written: %v", err)) // it holds only texts and numbers
	}
	return b
}

// DecodeTable reads the output of Encode and refuses an impossible table. Unknown fields are ignored: a newer version
// may have added them.
func DecodeTable(b []byte) (*Table, error) {
	var t Table
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return &t, nil
}

// check returns the first problem of a table, or nil.
func (t *Table) check() error {
	switch {
	case t.Cluster == "":
		return errors.New("it names no cluster")
	case t.Shards == 0 || t.Shards > slot.Count:
		return fmt.Errorf("%d shards", t.Shards)
	case t.Slots == nil:
		return errors.New("it does not say where slots are")
	case slices.Max(t.Slots[:]) >= t.Shards:
		return fmt.Errorf("a slot is on shard %d of %d", slices.Max(t.Slots[:]), t.Shards)
	case t.Replicas < 1:
		return fmt.Errorf("%d replicas", t.Replicas)
	case t.NextNumber <= firstNumber:
		return fmt.Errorf("the next replica's number is %d, and the first ones have %d", t.NextNumber, firstNumber)
	}
	for i, n := range t.Nodes {
		if err := n.check(); err != nil {
			return err
		}
		if i > 0 && t.Nodes[i-1].ID >= n.ID {
			return fmt.Errorf("node %q follows %q: they are not in order, or one is listed twice",
				n.ID, t.Nodes[i-1].ID)
		}
	}
	if err := t.checkMoves(); err != nil {
		return err
	}
	return t.checkGroups()
}

func (t *Table) checkMoves() error {
	if t.Wanted > slot.Count {
		return fmt.Errorf("%d shards are wanted", t.Wanted)
	}
	for i, m := range t.Moves {
		switch {
		case m.Slot >= slot.Count || uint32(m.From) >= t.Shards || uint32(m.To) >= t.Shards || m.From == m.To:
			return fmt.Errorf("slot %d moves from shard %v to shard %v", m.Slot, m.From, m.To)
		case t.Slots[m.Slot] != uint32(m.From) && t.Slots[m.Slot] != uint32(m.To):
			return fmt.Errorf("slot %d moves from shard %v to shard %v, and is on shard %d",
				m.Slot, m.From, m.To, t.Slots[m.Slot])
		case slices.ContainsFunc(t.Moves[:i], func(other Move) bool { return other.Slot == m.Slot }):
			return fmt.Errorf("slot %d moves twice", m.Slot)
		}
	}
	return nil
}

func (n *Node) check() error {
	if n.ID == "" {
		return errors.New("a node has no id")
	}
	if n.State > NodeRemoved {
		return fmt.Errorf("node %q: unknown %v", n.ID, n.State)
	}
	return nil
}

// checkGroups requires one group for each shard, in order, the system shard's last.
func (t *Table) checkGroups() error {
	numbers := map[uint64]shard.ID{}
	for i := range t.Groups {
		g := &t.Groups[i]
		if i > int(t.Shards) {
			return fmt.Errorf("%d shards and the system shard have %d groups", t.Shards, len(t.Groups))
		}
		if want := t.shardAt(i); g.Shard != want {
			return fmt.Errorf("the group of shard %v stands in the place of shard %v's", g.Shard, want)
		}
		if err := t.checkGroup(g, numbers); err != nil {
			return fmt.Errorf("shard %v: %w", g.Shard, err)
		}
	}
	if len(t.Groups) <= int(t.Shards) {
		return fmt.Errorf("shard %v has no group", t.shardAt(len(t.Groups)))
	}
	return nil
}

// shardAt returns the shard of the group at index i.
func (t *Table) shardAt(i int) shard.ID {
	if i == int(t.Shards) {
		return shard.System
	}
	return shard.ID(i)
}

// checkGroup checks one group. numbers holds the replica numbers of all groups so far.
func (t *Table) checkGroup(g *Group, numbers map[uint64]shard.ID) error {
	if g.Number >= t.NextNumber {
		return fmt.Errorf("the next number is %d, so its founders cannot have %d", t.NextNumber, g.Number)
	}
	if g.Lead != "" && t.Node(g.Lead) == nil {
		return fmt.Errorf("node %q should lead and is not listed", g.Lead)
	}
	for _, founder := range g.Founders {
		if t.Node(founder) == nil {
			return fmt.Errorf("its founder %q is not listed", founder)
		}
	}
	for i, r := range g.Replicas {
		if err := t.checkReplica(r); err != nil {
			return fmt.Errorf("replica %s: %w", r.Name(g.Shard), err)
		}
		if g.index(r.Node, r.Number) < i {
			return fmt.Errorf("replica %s is listed twice", r.Name(g.Shard))
		}
		if other, taken := numbers[r.Number]; taken && r.Number != firstNumber &&
			!(r.Number == g.number() && other == g.Shard) {
			return fmt.Errorf("number %d is given twice, here and in shard %v", r.Number, other)
		}
		numbers[r.Number] = g.Shard
	}
	if len(g.Voters()) == 0 {
		return errors.New("it has no voter")
	}
	return nil
}

func (t *Table) checkReplica(r Replica) error {
	node := t.Node(r.Node)
	switch {
	case node == nil:
		return errors.New("its node is not listed")
	case node.State == NodeRemoved:
		return errors.New("its node was removed")
	case r.Role > Leaving:
		return fmt.Errorf("unknown %v", r.Role)
	case r.Number < firstNumber || r.Number >= t.NextNumber:
		return fmt.Errorf("the next number is %d, so it cannot have this one", t.NextNumber)
	}
	return nil
}
