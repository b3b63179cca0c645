package placement

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// movesMax bounds how many slots move at the same time: each is away for a moment.
	movesMax = 2
	// asideMax bounds how many more wait aside (MoveReport.Aside): each is tried again and again.
	asideMax = 14
)

// SlotsToMove returns how many slots are still to move, or are moving, until all of the wanted shards have equally
// many.
func (t *Table) SlotsToMove() int {
	now := t.Clone()
	now.Moves = nil
	owned, left := now.slotsToBe(), 0
	owned = append(owned, make([][]slot.ID, max(t.WantedShards(), t.Shards)-t.Shards)...)
	for id, share := range sharesOf(owned, t.WantedShards()) {
		left += max(0, len(owned[id])-share)
	}
	return left
}

// slotPlanner is the part of the planner that is about slots and the shards that share them.
type slotPlanner struct{ *planner }

// plan founds the groups of shards that were asked for, and plans moves until the slots are even.
func (p slotPlanner) plan() {
	p.takeBack()
	if p.repairs() { //mutant:slot-moves-beside-a-repair
		return
	}
	p.foundLater()
	//mutant:more-moves-than-two //mutant:moves-aside-without-end
	for p.atWork() < movesMax && len(p.t.Moves) < movesMax+asideMax {
		m, found := p.nextMove(p.canMove)
		if !found {
			return
		}
		p.t.Moves = append(p.t.Moves, m)
		p.step("slot %d moves from shard %v to shard %v", m.Slot, m.From, m.To)
	}
}

// After returns the move that begins when one ends at its new shard, without another change of the table: between the
// same shards, which have just committed the last steps of that one. The planner begins all others, and any if moves
// wait aside, since it alone knows how many are at work. After takes all nodes to answer: it has no reports.
func (t *Table) After(m shard.Move) (next Move, found bool) {
	ended := t.ApplySlot(m, m.To, true)
	if ended == nil || len(ended.Moves) >= movesMax || ended.WantedShards() > ended.Shards { //mutant:third-move-follows
		return Move{}, false
	}
	p := slotPlanner{newPlanner(ended, Observed{})}
	if p.repairs() { //mutant:next-move-beside-a-repair
		return Move{}, false
	}
	return p.nextMove(func(next Move) bool {
		return next.From == m.From && next.To == m.To && p.canMove(next) //mutant:next-move-between-other-shards
	})
}

// repairs reports whether a replica of any group is joining or leaving.
func (p slotPlanner) repairs() bool {
	return slices.ContainsFunc(p.t.Groups, func(g Group) bool {
		s := p.judge(&g)
		return s.changing()
	})
}

// atWork counts the moves that do not wait aside.
func (p slotPlanner) atWork() (n int) {
	for _, m := range p.t.Moves {
		driver := p.seen.Reports[p.leader(m.To)]
		if !slices.ContainsFunc(driver.Moves, func(r MoveReport) bool { return r.Slot == m.Slot && r.Aside }) {
			n++
		}
	}
	return n
}

// takeBack takes moves back that lead to a shard which should have no slots any more.
func (p slotPlanner) takeBack() {
	for i := range p.t.Moves {
		if m := &p.t.Moves[i]; !m.Back && uint32(m.To) >= p.t.WantedShards() {
			m.Back = true
			p.step("slot %d stays on shard %v", m.Slot, m.From)
		}
	}
}

// foundLater adds the groups of new shards, once enough nodes for all of their voters are there.
func (p slotPlanner) foundLater() {
	welcoming, voters := 0, p.target()
	for i := range p.t.Nodes {
		if p.welcomes(&p.t.Nodes[i]) {
			welcoming++
		}
	}
	first := p.t.Shards
	if p.t.Wanted <= first || welcoming < voters { //mutant:group-founded-with-too-few
		return
	}
	for ; p.t.Shards < p.t.Wanted; p.t.Shards++ {
		g := Group{Shard: shard.ID(p.t.Shards), Number: p.t.NextNumber} //mutant:later-group-with-the-first-number
		p.t.NextNumber++
		p.t.Groups = slices.Insert(p.t.Groups, int(p.t.Shards), g)
		p.step("%s is founded", groupName(&g))
	}
	p.foundData(shard.ID(first), voters)
	for i := first; i < p.t.Shards; i++ {
		p.t.Groups[i].foundedBy()
	}
}

// nextMove returns the move that should begin next, of those that can. Each one leaves one less to be made until the
// slots are even. What a shard has too many are its highest slots, and they go to the shards that lack some in order:
// so shards have ranges.
func (p slotPlanner) nextMove(can func(Move) bool) (next Move, found bool) {
	owned := p.t.slotsToBe()
	shares := sharesOf(owned, p.t.WantedShards())
	lacks := func(id shard.ID) int { return shares[id] - len(owned[id]) }
	to, given := shard.ID(0), 0
	for from := range p.t.Shards {
		for _, s := range owned[from][min(shares[from], len(owned[from])):] {
			for lacks(to) <= given {
				to, given = to+1, 0
			}
			given++
			m := Move{Move: shard.Move{Slot: s, From: shard.ID(from), To: to}}
			if (!found || lacks(m.To) > lacks(next.To)) && can(m) {
				next, found = m, true
			}
		}
	}
	return next, found
}

// canMove reports whether a move can begin: the slot does not move already, and both groups can commit.
func (p slotPlanner) canMove(m Move) bool {
	if slices.ContainsFunc(p.t.Moves, func(other Move) bool { return other.Slot == m.Slot }) { //mutant:slot-moves-twice
		return false
	}
	from, to := p.judge(p.t.Group(m.From)), p.judge(p.t.Group(m.To))
	return from.works() && to.works() //mutant:slot-moves-to-a-group-without-majority
}

// slotsToBe lists the slots of each shard as they are once no move is under way.
func (t *Table) slotsToBe() [][]slot.ID {
	slots := *t.Slots
	for _, m := range t.Moves {
		slots[m.Slot] = uint32(m.To)
		if m.Back {
			slots[m.Slot] = uint32(m.From)
		}
	}
	owned := make([][]slot.ID, t.Shards)
	for s, id := range slots {
		owned[id] = append(owned[id], slot.ID(s))
	}
	return owned
}

// sharesOf returns how many slots each shard should have. As many as wanted share all slots; those that have the most
// get the odd ones, so that the fewest slots move.
func sharesOf(owned [][]slot.ID, wanted uint32) []int {
	sharing := make([]int, min(int(wanted), len(owned)))
	for i := range sharing {
		sharing[i] = i
	}
	slices.SortStableFunc(sharing, func(a, b int) int { return cmp.Compare(len(owned[b]), len(owned[a])) })
	shares := make([]int, len(owned))
	for i, id := range sharing {
		shares[id] = slot.Count / len(sharing)
		if i < slot.Count%len(sharing) {
			shares[id]++
		}
	}
	return shares
}
