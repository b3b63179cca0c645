package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// planWorld is a cluster in which only memberships are real: nodes that hold replicas, Raft groups that are a list of
// members and a leader, and a table that is replaced while the system group works. It carries out Reconcile, Align and
// Plan in an order that a test draws, and checks the safety invariants.
type planWorld struct {
	t      *testing.T
	rnd    *rand.Rand
	now    time.Duration
	truth  *Table
	past   []*Table // all versions, the current one last
	nodes  []*planNode
	groups map[shard.ID]*planGroup
	listed map[string]bool // names of replicas that any table ever listed
	opened map[string]bool // names of replicas that ever took part in a group
	story  []string
	vexed  *planNode // a second process runs under its id; nil: none
	doubts bool      // a leader occasionally takes a member for not caught up
}

type planNode struct {
	gossip.Member
	down      bool
	downSince time.Duration
	unheard   bool   // it is alive, but the controller does not hear it
	fresh     bool   // it has read the table from the system shard since it started
	table     *Table // the version that it knows; nil: none
	stores    map[string]*planStore
}

type planStore struct {
	Held
	synced bool // it has all committed entries
}

type planGroup struct {
	id      shard.ID
	members []GroupMember
	leader  string // name; "": none
	fresh   bool   // the leader has read the table since it began to lead
}

const planGrace = 30 * time.Second

// newPlanWorld creates a cluster in the state after its formation: the system group exists, and the others are to be
// created.
func newPlanWorld(t *testing.T, rnd *rand.Rand, founders int, zones int, shards uint32, replicas int) *planWorld {
	w := &planWorld{t: t, rnd: rnd, groups: map[shard.ID]*planGroup{}, listed: map[string]bool{},
		opened: map[string]bool{}}
	var nodes []Node
	for range founders {
		n := w.join(zones)
		nodes = append(nodes, Node{ID: n.Node, Zone: n.Zone, PeerAddr: n.PeerAddr, APIAddr: n.APIAddr,
			GossipAddr: n.GossipAddr})
	}
	w.swap("formation", NewTable("c", nodes, shards, replicas))
	for _, r := range w.truth.Group(shard.System).Replicas {
		name := r.Name(shard.System)
		w.opened[name] = true
		w.node(r.Node).stores[name] = &planStore{synced: true,
			Held: Held{Shard: shard.System, Number: r.Number, Open: true,
				Lone: len(w.truth.Group(shard.System).Replicas) == 1}}
	}
	return w
}

// join starts a new node.
func (w *planWorld) join(zones int) *planNode {
	id := fmt.Sprintf("n%d", len(w.nodes)+1)
	n := &planNode{stores: map[string]*planStore{},
		Member: gossip.Member{Node: id, Cluster: "c", State: gossip.MemberAlive,
			APIAddr: id + ":7400", PeerAddr: id + ":7401", GossipAddr: id + ":7402"}}
	if zones > 0 {
		n.Zone = fmt.Sprintf("z%d", len(w.nodes)%zones)
	}
	w.nodes = append(w.nodes, n)
	w.tell("%s starts, in zone %q", id, n.Zone)
	return n
}

func (w *planWorld) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%7.1fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
}

// fail ends the test and prints the last events.
func (w *planWorld) fail(format string, args ...any) {
	w.t.Helper()
	from := max(0, len(w.story)-60)
	w.t.Fatalf("%s\nafter:\n%s\ntable: %s\ngroups: %s", fmt.Sprintf(format, args...),
		strings.Join(w.story[from:], "\n"), w.truth.Encode(), w.printGroups())
}

func (w *planWorld) printGroups() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		fmt.Fprintf(&b, "%v: %+v, led by %q\n", id, w.groups[id].members, w.groups[id].leader)
	}
	return b.String()
}

func (w *planWorld) node(id string) *planNode {
	for _, n := range w.nodes {
		if n.Node == id {
			return n
		}
	}
	w.fail("no node %q", id)
	return nil
}

func (w *planWorld) store(name string) *planStore {
	r, _, err := ParseName(name)
	if err != nil {
		w.fail("%v", err)
	}
	return w.node(r.Node).stores[name]
}

// live reports whether a replica can vote and acknowledge.
func (w *planWorld) live(name string) bool {
	r, _, _ := ParseName(name)
	s := w.store(name)
	return s != nil && s.Open && !w.node(r.Node).down
}

// intact reports whether a replica still has all committed entries, running or not.
func (w *planWorld) intact(name string) bool {
	s := w.store(name)
	return s != nil && s.synced && !s.Broken
}

// most reports whether kind holds for a majority of a group's voters.
func (w *planWorld) most(g *planGroup, kind func(string) bool) bool {
	voters, of := 0, 0
	for _, m := range g.members {
		if m.Voter {
			voters++
			if kind(m.Name) {
				of++
			}
		}
	}
	return of > voters/2
}

// works reports whether a group has a leader that can commit.
func (w *planWorld) works(g *planGroup) bool {
	return g.leader != "" && w.live(g.leader) && w.most(g, w.live)
}

func (w *planWorld) systemWorks() bool { return w.works(w.groups[shard.System]) }

// planned carries out an action of the functions under test: no group may lose its majority by it.
func (w *planWorld) planned(what string, do func()) {
	w.t.Helper()
	before := map[shard.ID]bool{}
	for id, g := range w.groups {
		before[id] = w.most(g, w.live)
	}
	do()
	w.tell("%s", what)
	for id, g := range w.groups {
		if before[id] && !w.most(g, w.live) {
			w.fail("shard %v lost its majority by a planned change: %s", id, what)
		}
	}
}

// swap replaces the table.
func (w *planWorld) swap(what string, next *Table) {
	w.t.Helper()
	if next == nil {
		return
	}
	decoded, err := DecodeTable(next.Encode())
	if err != nil {
		w.fail("%s: %v", what, err)
	}
	if !reflect.DeepEqual(decoded, next) {
		w.fail("%s: the table is not what it was, decoded", what)
	}
	w.checkForward(what, w.truth, next)
	w.truth = next
	for i := range next.Groups {
		if g := &next.Groups[i]; w.groups[g.Shard] == nil {
			group := &planGroup{id: g.Shard}
			for _, name := range g.firstVoters() {
				group.members = append(group.members, GroupMember{name, true})
			}
			w.groups[g.Shard] = group
		}
	}
	w.past = append(w.past, next)
	w.tell("%s: table %d", what, len(w.past))
}

// checkForward verifies that a new version of the table does nothing forbidden to the previous one.
func (w *planWorld) checkForward(what string, old, next *Table) {
	w.t.Helper()
	for i := range next.Groups {
		g := &next.Groups[i]
		for _, r := range g.Replicas {
			var before *Replica
			if old != nil {
				before = old.Replica(g.Shard, r.Node, r.Number)
			}
			name := r.Name(g.Shard)
			switch {
			case before == nil && w.listed[name]:
				w.fail("%s: %s is listed again", what, name)
			case before != nil && (r.Role < before.Role || before.Created && !r.Created || before.Lost && !r.Lost):
				w.fail("%s: %+v became %+v", what, before, r)
			}
			w.listed[name] = true
		}
	}
	for i := range next.Nodes {
		now := next.Nodes[i]
		n := old.nodeOrNil(now.ID)
		switch {
		case n == nil:
		case n.State == NodeRemoved && now.State == NodeActive && now.Incarnation > n.Incarnation &&
			w.node(n.ID).table == nil:
		case n.State >= NodeLeaving && now.State < n.State || n.Incarnation != now.Incarnation:
			w.fail("%s: node %+v is %+v again", what, *n, now)
		}
	}
}

func (t *Table) nodeOrNil(id string) *Node {
	if t == nil {
		return nil
	}
	return t.Node(id)
}

// observe returns the controller's observation, late by up to two seconds.
func (w *planWorld) observe() Observed {
	seen := Observed{Grace: planGrace, Silent: map[string]time.Duration{}, Reports: map[string]Report{}}
	for _, n := range w.nodes {
		m := n.Member
		if n.down {
			m.State = gossip.MemberSuspect
			if silent := w.now - n.downSince - time.Duration(w.rnd.Int64N(int64(2*time.Second))); silent > 0 {
				seen.Silent[n.Node] = silent
			}
		} else if n.unheard {
			seen.Silent[n.Node] = time.Duration(w.rnd.Int64N(int64(2 * planGrace)))
		}
		seen.Members = append(seen.Members, m)
		report := Report{Node: n.Node, Fresh: n.table == nil}
		for name, s := range n.stores {
			report.Replicas = append(report.Replicas, ReplicaReport{Shard: s.Shard, Number: s.Number,
				Leading: w.groups[s.Shard].leader == name})
		}
		seen.Reports[n.Node] = report
	}
	return seen
}

// plan lets the controller plan once. It returns false if there was nothing to do.
func (w *planWorld) plan() bool {
	w.t.Helper()
	if !w.systemWorks() {
		return false
	}
	before := w.truth.Encode()
	seen := w.observe()
	next, steps := Plan(w.truth, seen)
	if string(w.truth.Encode()) != string(before) {
		w.fail("the planner changed a table that was handed on")
	}
	if (next == nil) != (len(steps) == 0) {
		w.fail("%d steps, table %v", len(steps), next)
	}
	if next == nil {
		return false
	}
	w.checkPlan(next, seen)
	w.swap("plan: "+strings.Join(steps, "; "), next)
	return true
}

// checkPlan verifies that a plan is allowed.
func (w *planWorld) checkPlan(next *Table, seen Observed) {
	w.t.Helper()
	learners := 0
	w.checkSlots(next, seen)
	for i := range w.truth.Groups {
		old := &w.truth.Groups[i]
		g := next.Group(old.Shard)
		begun := 0
		for _, r := range old.Replicas {
			now := next.Replica(g.Shard, r.Node, r.Number)
			if now == nil {
				w.fail("the planner unlisted %s", r.Name(g.Shard))
			}
			if now.Created != r.Created || now.Lost != r.Lost || now.Role == Voter && r.Role != Voter {
				w.fail("the planner turned %+v into %+v", r, *now)
			}
			if now.Role != r.Role && r.Role == Voter && !(r.Lost && w.leaving(old) == 0) { // a lost one need not wait
				begun++
			}
		}
		added := len(g.Replicas) - len(old.Replicas)
		if added > 0 && w.withoutLeaving(old, seen) &&
			slices.ContainsFunc(g.Voters(), func(r Replica) bool { return r.Lost }) {
			w.fail("shard %v: a replica is added before the lost one has left", g.Shard)
		}
		under := w.underWay(old)
		if begun+added > 0 && under > 0 && w.withoutLeaving(old, seen) || begun+added > 1 {
			w.fail("shard %v: %d changes under way, %d replicas leave and %d are added", g.Shard, under, begun, added)
		}
		learners += added
		if g.Lead != "" {
			n, r := next.Node(g.Lead), next.ReplicaOf(g.Shard, g.Lead)
			if n.State != NodeActive || seen.Silent[g.Lead] > 2*time.Second || r == nil {
				w.fail("shard %v should be led by %s: %+v, silent for %v", g.Shard, g.Lead, n, seen.Silent[g.Lead])
			}
		}
	}
	if learners > 4 {
		w.fail("%d learners at once", learners)
	}
}

// checkSlots verifies what a plan says about slots and the shards that share them.
func (w *planWorld) checkSlots(next *Table, seen Observed) {
	w.t.Helper()
	if next.Shards > max(w.truth.Shards, w.truth.Wanted) || next.Shards < w.truth.Shards {
		w.fail("%d shards become %d, and %d are wanted", w.truth.Shards, next.Shards, w.truth.Wanted)
	}
	for id := w.truth.Shards; id < next.Shards; id++ {
		g := next.Group(shard.ID(id))
		if voters := w.target(next); len(g.Founders) != voters || len(g.Voters()) != voters ||
			g.Number < w.truth.NextNumber {
			w.fail("shard %d is founded with %d voters instead of %d: %+v", id, len(g.Founders), voters, g)
		}
	}
	begun := 0
	for _, m := range next.Moves {
		if slices.ContainsFunc(w.truth.Moves, func(old Move) bool { return old.Move == m.Move }) {
			continue
		}
		begun++
		for i := range next.Groups {
			if w.underWay(&next.Groups[i]) > 0 {
				w.fail("slot %d begins to move while shard %v changes", m.Slot, next.Groups[i].Shard)
			}
		}
		if from, to := next.Group(m.From), next.Group(m.To); !w.withoutLeaving(from, seen) ||
			!w.withoutLeaving(to, seen) {
			w.fail("slot %d begins to move from shard %v to shard %v, and one has no majority", m.Slot, m.From, m.To)
		}
	}
	before := w.truth.Clone()
	for i, m := range before.Moves {
		before.Moves[i].Back = m.Back || uint32(m.To) >= before.WantedShards()
	}
	before.Shards = next.Shards
	if a, b := movesLeft(before), movesLeft(next); b != a-begun || len(next.Moves) > 2 {
		w.fail("%d moves begin, %d are under way, and instead of %d there remain %d", begun, len(next.Moves), a, b)
	}
}

// movesLeft is the least number of moves that make the slots even, after those under way.
func movesLeft(t *Table) (left int) {
	owned := make([]int, t.Shards)
	slots := *t.Slots
	for _, m := range t.Moves {
		if slots[m.Slot] = uint32(m.To); m.Back {
			slots[m.Slot] = uint32(m.From)
		}
	}
	for _, id := range slots {
		owned[id]++
	}
	wanted := min(t.WantedShards(), t.Shards)
	for _, n := range owned[wanted:] {
		left += n
	}
	sharing := owned[:wanted]
	slices.SortFunc(sharing, func(a, b int) int { return b - a })
	for i, n := range sharing {
		share := len(slots) / len(sharing)
		if i < len(slots)%len(sharing) {
			share++
		}
		left += max(0, n-share)
	}
	return left
}

// target is the number of voters that the registered nodes allow.
func (w *planWorld) target(t *Table) int {
	registered := 0
	for _, n := range t.Nodes {
		if n.State < NodeLeaving {
			registered++
		}
	}
	return largestOdd(t.Replicas, registered)
}

// move takes one of the moves under way a step further, if the groups concerned can commit. A move that is taken back
// ends on either side. It returns false if no move could go on.
func (w *planWorld) move() bool {
	w.t.Helper()
	var able []Move
	for _, m := range w.truth.Moves {
		if w.works(w.groups[m.From]) && w.works(w.groups[m.To]) {
			able = append(able, m)
		}
	}
	if len(able) == 0 || !w.systemWorks() {
		return false
	}
	m := able[w.rnd.IntN(len(able))]
	owner, what := m.To, fmt.Sprintf("slot %d from shard %v to shard %v", m.Slot, m.From, m.To)
	if m.Back && w.rnd.IntN(2) == 0 {
		owner = m.From
	}
	switch {
	case m.Generation == 0:
		w.swap(what+" gets its generation", w.truth.ApplyGeneration(m, 1+w.rnd.Uint64N(100)))
	case w.rnd.IntN(4) == 0:
		w.swap(what+" is told", w.truth.ApplySlot(m.Move, owner, false))
	default:
		ended := w.truth.ApplySlot(m.Move, owner, true)
		if next, found := w.truth.After(m.Move); found && owner == m.To && w.rnd.IntN(4) > 0 {
			next.Generation = 1 + w.rnd.Uint64N(100)
			left := movesLeft(ended) // one less than before, if m was to be taken back and its slot is wanted there again
			if ended.Moves = append(ended.Moves, next); movesLeft(ended) != left-1 {
				w.fail("%s is followed by %+v, which leaves %d instead of %d", what, next, movesLeft(ended), left-1)
			}
		}
		w.swap(what+" is over", ended)
	}
	return true
}

// withoutLeaving reports whether a majority of the replicas that are not leaving answers.
func (w *planWorld) withoutLeaving(g *Group, seen Observed) bool {
	answering := 0
	for _, r := range g.Voters() {
		if r.Created && !r.Lost && seen.Silent[r.Node] == 0 {
			answering++
		}
	}
	return answering > len(g.Voters())/2
}

func (w *planWorld) leaving(g *Group) (n int) {
	for _, r := range g.Replicas {
		if r.Role == Leaving {
			n++
		}
	}
	return n
}

func (w *planWorld) underWay(g *Group) int {
	n := 0
	for _, r := range g.Replicas {
		if r.Role != Voter {
			n++
		}
	}
	return n
}

// read lets a node read the table from the system shard.
func (w *planWorld) read(n *planNode) {
	if !n.down && w.systemWorks() && w.learn(n, w.truth) {
		n.fresh = true
	}
}

// learn gives a node a table, unless the table excludes it. A removed node gets none as long as its disk is empty, as
// the other nodes do not list it. A node ends if another one has got the id on its disk, and the operator empties the
// disk.
func (w *planWorld) learn(n *planNode, newer *Table) bool {
	if n.table == nil {
		if listed := newer.Node(n.Node); listed != nil && listed.State == NodeRemoved {
			return false
		}
	} else if newer.Incarnation(n.Node) > n.table.Incarnation(n.Node) {
		w.tell("%s is told that another node has its id, and is emptied", n.Node)
		w.crash(n)
		n.stores, n.table = map[string]*planStore{}, nil
		n.down = false
		return false
	}
	n.table = newer
	return true
}

// hear gives a node some version of the table from other nodes, never an older one than its own.
func (w *planWorld) hear(n *planNode) {
	if n.down {
		return
	}
	from := max(0, slices.Index(w.past, n.table))
	w.learn(n, w.past[from+w.rnd.IntN(len(w.past)-from)])
}

// reconcile lets a node take the first of its actions, or all of them in any order. It returns false if it has none.
func (w *planWorld) reconcile(n *planNode, all bool) bool {
	w.t.Helper()
	if n.down || n.table == nil {
		return false
	}
	var held []Held
	for _, name := range slices.Sorted(maps.Keys(n.stores)) {
		held = append(held, n.stores[name].Held)
	}
	actions := Reconcile(n.table, n.Node, held)
	w.rnd.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	if !all && len(actions) > 1 {
		actions = actions[:1]
	}
	for _, a := range actions {
		w.act(n, a)
	}
	return len(actions) > 0
}

func (w *planWorld) act(n *planNode, a Action) {
	w.t.Helper()
	name := Replica{Node: n.Node, Number: a.Number}.Name(a.Shard)
	s := n.stores[name]
	what := fmt.Sprintf("%v %s", a.Kind, name)
	switch a.Kind {
	case Create:
		w.create(n, a, name)
	case MarkCreated:
		if w.systemWorks() {
			w.swap(what, w.truth.ApplyCreated(a.Shard, n.Node, a.Number))
			w.opened[name] = w.opened[name] || s.Open
		}
	case MarkLost:
		if w.systemWorks() {
			w.swap(what, w.truth.ApplyLost(a.Shard, n.Node, a.Number))
		}
	case Open, Reopen:
		r := w.truth.Replica(a.Shard, n.Node, a.Number)
		if s.Broken || r != nil && !r.Created && a.Shard != shard.System {
			w.fail("%s opens, broken %t: %+v", name, s.Broken, r)
		}
		w.opened[name] = w.opened[name] || r == nil || r.Created
		w.planned(what, func() { s.Open, s.Lone = true, a.Lone })
	case Close:
		w.planned(what, func() { w.stop(name, s) })
	case Destroy:
		if s.Open || w.truth.Replica(a.Shard, n.Node, a.Number) != nil {
			w.fail("%s is destroyed, open %t, and the table lists %+v",
				name, s.Open, w.truth.Replica(a.Shard, n.Node, a.Number))
		}
		w.planned(what, func() { delete(n.stores, name) })
	}
}

func (w *planWorld) create(n *planNode, a Action, name string) {
	w.t.Helper()
	if !n.fresh {
		return // the extra condition of Reconcile for Create
	}
	if w.opened[name] || n.stores[name] != nil {
		w.fail("%s is created again: it has voted, and would vote with a shorter memory", name)
	}
	g := w.truth.Group(a.Shard)
	founder := slices.Contains(g.firstVoters(), name)
	if first := g.firstVoters(); founder && !slices.Equal(a.Voters, first) || !founder && a.Voters != nil {
		w.fail("%s is created with voters %v, the group began with %v", name, a.Voters, first)
	}
	n.stores[name] = &planStore{Held: Held{Shard: a.Shard, Number: a.Number}, synced: founder}
	w.tell("create %s", name)
}

// elect gives a group a leader if a majority is alive.
func (w *planWorld) elect(g *planGroup) {
	if w.works(g) {
		return
	}
	g.leader, g.fresh = "", false
	if !w.most(g, w.live) {
		return
	}
	var able []string
	for _, m := range g.members {
		if m.Voter && w.live(m.Name) && w.intact(m.Name) {
			able = append(able, m.Name)
		}
	}
	if len(able) > 0 {
		g.leader = able[w.rnd.IntN(len(able))]
		w.tell("%s leads", g.leader)
	}
}

// sync lets a member catch up.
func (w *planWorld) sync(g *planGroup, name string) {
	if w.works(g) && w.live(name) {
		w.store(name).synced = true
	}
}

// align lets the leader of a group take its next steps. It returns false if there are none, or it cannot.
func (w *planWorld) align(g *planGroup) bool {
	w.t.Helper()
	if !w.works(g) {
		return false
	}
	leader, _, _ := ParseName(g.leader)
	n := w.node(leader.Node)
	if !g.fresh {
		if !w.systemWorks() {
			return false
		}
		w.read(n)
		g.fresh = true
	}
	if n.table.Group(g.id) == nil || w.store(g.leader).Lone != (len(n.table.Group(g.id).Replicas) == 1) {
		return false // it has to be opened again first
	}
	caughtUp := func(name string) bool {
		return w.live(name) && w.intact(name) && !(w.doubts && w.rnd.IntN(4) == 0)
	}
	changes := Align(n.table, g.id, g.leader, slices.Clone(g.members), caughtUp)
	raftChanges := 0
	for _, c := range changes {
		if c.ofRaft() {
			raftChanges++
		}
		w.change(g, c)
	}
	if raftChanges > 1 {
		w.fail("%d changes of shard %v at once", raftChanges, g.id)
	}
	return len(changes) > 0
}

func (w *planWorld) change(g *planGroup, c Change) {
	w.t.Helper()
	what := fmt.Sprintf("%v %s", c.Kind, c.Name)
	at := slices.IndexFunc(g.members, func(m GroupMember) bool { return m.Name == c.Name })
	if c.Kind == AddLearner || c.Kind == Promote {
		w.checkComing(g, c)
	}
	switch c.Kind {
	case AddLearner:
		w.planned(what, func() { g.members = append(g.members, GroupMember{Name: c.Name}) })
	case Promote:
		w.planned(what, func() { g.members[at].Voter = true })
	case Remove:
		if c.Name == g.leader {
			w.fail("the leader removes itself: %s", c.Name)
		}
		w.planned(what, func() { g.members = slices.Delete(g.members, at, at+1) })
	case TransferAway:
		if !g.members[at].Voter || c.Name == g.leader {
			w.fail("%s hands over to %s", g.leader, c.Name)
		}
		g.leader, g.fresh = c.Name, false
		w.tell("%s", what)
	case RecordVoter:
		if w.systemWorks() {
			w.swap(what, w.truth.ApplyVoter(c.Shard, c.Node, c.Number))
		}
	case RecordGone:
		if w.systemWorks() {
			w.swap(what, w.truth.ApplyGone(c.Shard, c.Node, c.Number))
		}
	default:
		w.fail("%s: leaders that read the table first do not see that", what)
	}
}

// checkComing verifies that a replica may join a group now: no voter of its node is there, and none that the leader
// knows to be lost.
func (w *planWorld) checkComing(g *planGroup, c Change) {
	w.t.Helper()
	leader, _, _ := ParseName(g.leader)
	for _, m := range g.members {
		r, _, _ := ParseName(m.Name)
		listed := w.node(leader.Node).table.Replica(g.id, r.Node, r.Number)
		if m.Voter && (r.Node == c.Node && m.Name != c.Name || listed != nil && listed.Lost &&
			len(w.node(leader.Node).table.Group(g.id).Voters()) > 1) {
			w.fail("%v %s beside the voter %s: %+v", c.Kind, c.Name, m.Name, listed)
		}
	}
}

// stop closes a replica.
func (w *planWorld) stop(name string, s *planStore) {
	s.Open = false
	if g := w.groups[s.Shard]; g.leader == name {
		g.leader, g.fresh = "", false
	}
}

// crash stops a node.
func (w *planWorld) crash(n *planNode) {
	if n.down {
		return
	}
	n.down, n.downSince, n.fresh = true, w.now, false
	for name, s := range n.stores {
		w.stop(name, s)
	}
	w.tell("%s crashes", n.Node)
}

// restart starts a node again. It knows some version of the table, perhaps an old one, but none from before it had its
// id.
func (w *planWorld) restart(n *planNode) {
	if !n.down {
		return
	}
	n.down = false
	table := w.past[w.rnd.IntN(len(w.past))]
	if listed := w.truth.Node(n.Node); n.table == nil && listed != nil && listed.State == NodeRemoved {
		w.tell("%s starts again, with an empty disk", n.Node)
		return
	}
	if n.table == nil || table.Incarnation(n.Node) == n.table.Incarnation(n.Node) {
		n.table = table
	}
	w.tell("%s starts again, with table %d", n.Node, slices.Index(w.past, n.table)+1)
}

// expendable reports whether every group keeps a majority with all committed entries without this node's disk.
func (w *planWorld) expendable(n *planNode) bool {
	for _, g := range w.groups {
		if !w.most(g, func(name string) bool {
			r, _, _ := ParseName(name)
			return r.Node != n.Node && w.intact(name)
		}) {
			return false
		}
	}
	return true
}

// wipe deletes the stores of a stopped node, or makes them suspect, if the groups can tolerate that.
func (w *planWorld) wipe(n *planNode, suspect bool) {
	if !n.down || !w.expendable(n) {
		return
	}
	w.tell("%s loses its disk, suspect %t", n.Node, suspect)
	if !suspect {
		n.stores, n.table = map[string]*planStore{}, nil
		return
	}
	for _, s := range n.stores {
		s.Broken = true
	}
}

// ReplicaOf returns a node's newest replica of a shard, or nil if it has none. A node has two while a lost one waits to
// be removed. The result points into the table.
func (t *Table) ReplicaOf(id shard.ID, node string) *Replica {
	var newest *Replica
	if g := t.Group(id); g != nil {
		for i := range g.Replicas {
			if r := &g.Replicas[i]; r.Node == node && (newest == nil || r.Number > newest.Number) {
				newest = r
			}
		}
	}
	return newest
}

// String implements fmt.Stringer.
func (k ChangeKind) String() string {
	names := []string{"", "add learner", "promote", "remove", "transfer away", "record voter", "record gone",
		"stray", "unknown"}
	if k <= 0 || int(k) >= len(names) {
		return "unknown change"
	}
	return names[k]
}

// String implements fmt.Stringer.
func (k ActionKind) String() string {
	names := []string{"", "create", "mark created", "open", "reopen", "mark lost", "close", "destroy"}
	if k <= 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}
