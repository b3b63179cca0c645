package placement

import (
	commandline "flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

var (
	planSeedFlag   = commandline.Uint64("plan-seed", 0, "replay the random world that printed this seed; 0 plays many")
	planFirstFlag  = commandline.Uint64("plan-first", 1, "the first seed of the random worlds; 0 draws it")
	planWorldsFlag = commandline.Int("plan-worlds", 12, "random worlds for the planner")
)

// TestRandomWorldsKeepTheirMajoritiesAndComeToRest lets nodes die, return wiped or with old tables, join, drain and
// leave, return under their ids with new disks, and run twice under one id, while all nodes carry out their actions in
// any order. No planned step costs a group its majority, no node has two voters in a group, a lost voter leaves before
// another replica comes, no number is used again, and no replica votes with a shorter memory. Meanwhile the operator
// asks for more shards and for fewer: the groups of later ones are founded once, at most two slots move at a time, none
// twice, none beside a repair or without a majority on both sides, and no more than needed. When the faults stop,
// everything reaches its target and stays there.
func TestRandomWorldsKeepTheirMajoritiesAndComeToRest(t *testing.T) {
	t.Parallel()
	if *planSeedFlag != 0 {
		playPlanWorld(t, *planSeedFlag)
		return
	}
	first := *planFirstFlag
	if first == 0 {
		first = rand.Uint64()
	}
	for i := range *planWorldsFlag {
		seed := first + uint64(i)
		if !t.Run("", func(t *testing.T) { playPlanWorld(t, seed) }) {
			t.Fatalf("repeat with: go test ./cluster/placement -run '^%s$' -plan-seed=%d", t.Name(), seed)
		}
	}
}

func playPlanWorld(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	founders := 1 + rnd.IntN(5)
	zones := rnd.IntN(4)
	w := newPlanWorld(t, rnd, founders, zones, uint32(1+rnd.IntN(6)), 1+rnd.IntN(5))
	w.doubts = true
	for range 200 + rnd.IntN(600) {
		w.disturb(zones)
		for range 8 {
			w.anyStep()
		}
	}
	w.heal()
	w.settle()
	if rnd.IntN(2) == 0 || w.someLeaving() {
		w.clearUp()
		w.settle()
	}
	w.checkRest()
}

// disturb makes one random action of an operator, or one fault, happen.
func (w *planWorld) disturb(zones int) {
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	registered := w.truth.Node(n.Node)
	switch w.rnd.IntN(40) {
	case 0, 1:
		w.crash(n)
	case 2, 3, 4, 5:
		w.restart(n)
	case 6:
		w.wipe(n, w.rnd.IntN(3) == 0)
	case 7:
		if len(w.nodes) < 9 {
			w.join(zones)
		}
	case 8:
		w.operator(n, NodeDraining)
	case 9, 10:
		w.operator(n, NodeActive)
	case 11:
		if registered != nil && w.stayers(n) >= 1 {
			w.operator(n, NodeLeaving)
		}
	case 12:
		n.unheard = !n.unheard
	case 13:
		w.now += time.Duration(w.rnd.Int64N(int64(2 * planGrace)))
	case 14:
		w.vexed = n
		w.tell("%s runs twice", n.Node)
	case 15:
		w.vexed = nil
	case 16:
		if w.systemWorks() {
			w.swap("operator: other shards", w.truth.ApplyWanted(uint32(1+w.rnd.IntN(6))))
		}
	}
}

// vex lets a second process under the id of a node, which has none of its stores, record that they are lost, as one
// does that knows of no other process. Its node does not use them any more. It happens only where the other nodes are a
// majority: a loss that they do not survive is no fault of the planner's.
func (w *planWorld) vex(n *planNode) {
	if n.down || !w.systemWorks() {
		return
	}
	for _, g := range w.groups {
		if !w.most(g, func(name string) bool {
			r, _, _ := ParseName(name)
			return r.Node != n.Node && w.live(name) && w.intact(name)
		}) {
			return
		}
	}
	next := w.truth
	for _, s := range n.stores {
		if r := next.Replica(s.Shard, n.Node, s.Number); r != nil && r.Created && !r.Lost {
			next = next.ApplyLost(s.Shard, n.Node, s.Number)
		}
	}
	if next == w.truth {
		return
	}
	w.swap("a second "+n.Node, next)
	for name, s := range n.stores {
		if r := next.Replica(s.Shard, n.Node, s.Number); r != nil && r.Lost {
			w.stop(name, s)
			s.Broken = true
		}
	}
}

// stayers counts the other nodes that are not leaving and have intact disks.
func (w *planWorld) stayers(except *planNode) int {
	count := 0
	for _, n := range w.truth.Nodes {
		if n.State < NodeLeaving && n.ID != except.Node && !w.node(n.ID).down {
			count++
		}
	}
	return count
}

func (w *planWorld) operator(n *planNode, state NodeState) {
	if w.systemWorks() {
		w.swap("operator: "+n.Node+" is "+state.String(), w.truth.ApplyNodeState(n.Node, state))
	}
}

// anyStep lets a random part of the cluster take one step.
func (w *planWorld) anyStep() {
	w.now += time.Duration(w.rnd.Int64N(int64(300 * time.Millisecond)))
	if w.vexed != nil && w.rnd.IntN(4) == 0 {
		w.vex(w.vexed)
	}
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	g := w.anyGroup()
	switch w.rnd.IntN(11) {
	case 0:
		w.hear(n)
	case 1:
		w.read(n)
	case 2, 3, 4:
		w.reconcile(n, w.rnd.IntN(2) == 0)
	case 5:
		w.elect(g)
		w.elect(w.groups[shard.System])
	case 6, 7:
		w.align(g)
	case 8:
		w.sync(g, g.members[w.rnd.IntN(len(g.members))].Name)
		w.follow(g)
	case 9:
		w.plan()
	case 10:
		w.move()
	}
}

func (w *planWorld) anyGroup() *planGroup {
	at := w.rnd.IntN(len(w.truth.Groups))
	return w.groups[w.truth.Groups[at].Shard]
}

// follow transfers the leadership to the node that should lead.
func (w *planWorld) follow(g *planGroup) {
	r := w.truth.ReplicaOf(g.id, w.truth.Group(g.id).Lead)
	if r == nil || !w.works(g) {
		return
	}
	name := r.Name(g.id)
	if name != g.leader && slices.Contains(g.members, GroupMember{name, true}) && w.live(name) && w.intact(name) {
		g.leader, g.fresh = name, false
		w.tell("%s leads, as it should", name)
	}
}

// heal ends the faults. Now and then one node never returns.
func (w *planWorld) heal() {
	w.doubts, w.vexed = false, nil
	var dead *planNode
	for _, n := range w.nodes {
		n.unheard = false
		if dead == nil && n.down && w.expendable(n) && w.rnd.IntN(3) == 0 {
			dead = n
			w.now += planGrace
			w.tell("%s is dead for good", n.Node)
			continue
		}
		w.restart(n)
	}
}

// settle runs all parts until none has anything left to do.
func (w *planWorld) settle() {
	w.t.Helper()
	rounds := 100 + 30*len(w.truth.Groups)
	for range rounds {
		if !w.round() {
			return
		}
		for busy, n := true, 0; busy && n < 100; n++ {
			busy = w.move()
			busy = w.plan() || busy
		}
	}
	w.fail("still busy after %d rounds", rounds)
}

// round runs every part once. It returns false if none had anything to do.
func (w *planWorld) round() bool {
	w.t.Helper()
	w.now += time.Second
	busy := w.plan()
	busy = w.move() || busy
	for _, n := range w.nodes {
		w.read(n)
		busy = w.reconcile(n, true) || busy
	}
	for i := range w.truth.Groups {
		g := w.groups[w.truth.Groups[i].Shard]
		busy = !w.works(g) || busy
		w.elect(g)
		for _, m := range g.members {
			w.sync(g, m.Name)
		}
		w.follow(g)
		busy = w.align(g) || busy
	}
	return busy
}

// clearUp acts as the operator when a leaving node is stuck: draining nodes take over no replicas, and a dead node may
// still be waited for. If this leaves no candidate, a new node is needed.
func (w *planWorld) clearUp() {
	w.join(0)
	for _, n := range w.truth.Nodes {
		if n.State == NodeDraining {
			w.operator(w.node(n.ID), NodeActive)
		}
		if w.node(n.ID).down {
			w.operator(w.node(n.ID), NodeLeaving)
		}
	}
}

func (w *planWorld) someLeaving() bool {
	return slices.ContainsFunc(w.truth.Nodes, func(n Node) bool { return n.State == NodeLeaving })
}

// checkRest verifies a cluster without faults.
func (w *planWorld) checkRest() {
	w.t.Helper()
	if w.someLeaving() {
		w.fail("somebody is leaving for ever")
	}
	for i := range w.truth.Groups {
		w.checkGroupAtRest(&w.truth.Groups[i])
	}
	w.checkLeads()
	w.checkLoads()
	w.checkSlotsAtRest()
}

// checkSlotsAtRest requires as many shards as were asked for, where the nodes allow their groups, and even slots.
func (w *planWorld) checkSlotsAtRest() {
	w.t.Helper()
	usable := 0
	for _, n := range w.truth.Nodes {
		if n.State == NodeActive && !w.node(n.ID).down {
			usable++
		}
	}
	if w.truth.Shards < w.truth.Wanted && usable >= w.target(w.truth) {
		w.fail("%d shards instead of %d", w.truth.Shards, w.truth.Wanted)
	}
	if left := movesLeft(w.truth); left > 0 || len(w.truth.Moves) > 0 {
		w.fail("%d moves are missing, %d are under way", left, len(w.truth.Moves))
	}
}

// checkGroupAtRest requires as many voters on living nodes as these allow, and a Raft group that matches the table.
func (w *planWorld) checkGroupAtRest(g *Group) {
	w.t.Helper()
	registered, usable, sound, down := 0, map[string]bool{}, 0, false
	for _, n := range w.truth.Nodes {
		if n.State < NodeLeaving {
			registered++
			down = down || w.node(n.ID).down
			if n.State == NodeActive && !w.node(n.ID).down {
				usable[n.ID] = true
			}
		}
	}
	var names []GroupMember
	for _, r := range g.Replicas {
		names = append(names, GroupMember{r.Name(g.Shard), true})
		if r.Role != Voter {
			w.fail("%s is %v for ever", r.Name(g.Shard), r.Role)
		}
		if !r.Lost && !w.node(r.Node).down && w.truth.Node(r.Node).State < NodeLeaving {
			sound++
			usable[r.Node] = true // a draining node keeps its replicas
		}
	}
	if want := largestOdd(min(w.truth.Replicas, registered), len(usable)); sound < want {
		w.fail("shard %v has %d sound voters, %d nodes allow %d", g.Shard, sound, len(usable), want)
	}
	if most := largestOdd(w.truth.Replicas, registered); len(names) > most {
		w.fail("shard %v has %d voters, more than %d", g.Shard, len(names), most)
	}
	if len(names)%2 == 0 && !down { // the dead one may come back
		w.fail("shard %v rests with %d voters", g.Shard, len(names))
	}
	members := slices.Clone(w.groups[g.Shard].members)
	slices.SortFunc(members, compareMembers)
	slices.SortFunc(names, compareMembers)
	if !slices.Equal(members, names) {
		w.fail("shard %v: the table says %v, the group %v", g.Shard, names, members)
	}
}

func compareMembers(a, b GroupMember) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

// checkLeads requires that no node has more leads than necessary, of busy groups and of all, by matching groups to nodes
// with a bounded number of leads each. As the busy ones are spread first, there may be one more of all.
func (w *planWorld) checkLeads() {
	w.t.Helper()
	able, busy := map[shard.ID][]string{}, map[shard.ID][]string{}
	counts, busyCounts := map[string]int{}, map[string]int{}
	for i := range w.truth.Groups {
		g := &w.truth.Groups[i]
		for _, r := range g.Voters() {
			if w.truth.Node(r.Node).State == NodeActive && !w.node(r.Node).down && !r.Lost {
				able[g.Shard] = append(able[g.Shard], r.Node)
			}
		}
		if (g.Lead == "") != (len(able[g.Shard]) == 0) {
			w.fail("shard %v should be led by %q of %v", g.Shard, g.Lead, able[g.Shard])
		}
		if g.Lead != "" {
			counts[g.Lead]++
		}
		if g.Lead != "" && uint32(g.Shard) < w.truth.WantedShards() {
			busy[g.Shard] = able[g.Shard]
			busyCounts[g.Lead]++
		}
	}
	w.checkMost(busy, busyCounts, 0)
	w.checkMost(able, counts, 1)
}

// checkMost requires that the node with the most leads has none more than necessary, or only so many.
func (w *planWorld) checkMost(able map[shard.ID][]string, counts map[string]int, more int) {
	w.t.Helper()
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	if would := most - 1 - more; would > 0 && canLeadWithin(able, would) {
		w.fail("leads %v, and %d each would do", counts, would)
	}
}

// canLeadWithin reports whether every group can be led such that no node leads more than most groups: Kuhn's matching.
func canLeadWithin(able map[shard.ID][]string, most int) bool {
	leads := map[string][]shard.ID{}
	var place func(id shard.ID, tried map[string]bool) bool
	place = func(id shard.ID, tried map[string]bool) bool {
		for _, node := range able[id] {
			if tried[node] {
				continue
			}
			tried[node] = true
			if len(leads[node]) < most {
				leads[node] = append(leads[node], id)
				return true
			}
			for i, other := range leads[node] {
				if place(other, tried) {
					leads[node][i] = id
					return true
				}
			}
		}
		return false
	}
	for id := range able {
		if !place(id, map[string]bool{}) {
			return false
		}
	}
	return true
}

// checkLoads requires that no replica of a healthy group would be better placed on another active node.
func (w *planWorld) checkLoads() {
	w.t.Helper()
	load := map[string]int{}
	for i := range w.truth.Groups {
		for _, r := range w.truth.Groups[i].Replicas {
			load[r.Node]++
		}
	}
	for i := range w.truth.Groups {
		g := &w.truth.Groups[i]
		zones, holds, whole := map[string]int{}, map[string]bool{}, true
		for _, r := range g.Replicas {
			zones[w.truth.Node(r.Node).Zone]++
			holds[r.Node] = true
			whole = whole && !r.Lost && !w.node(r.Node).down
		}
		for _, r := range g.Replicas {
			from := w.truth.Node(r.Node)
			for _, to := range w.truth.Nodes {
				if !whole || holds[to.ID] || from.State != NodeActive || to.State != NodeActive || w.node(to.ID).down {
					continue
				}
				others := zones[to.Zone]
				if to.Zone == from.Zone {
					others--
				}
				if here := zones[from.Zone] - 1; others < here || others == here && load[from.ID] >= load[to.ID]+2 {
					w.fail("shard %v: the replica on %s (%d replicas, zone %s) should be on %s (%d, zone %s)", g.Shard,
						from.ID, load[from.ID], from.Zone, to.ID, load[to.ID], to.Zone)
				}
			}
		}
	}
}
