package gossip

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// abc is a formation of three nodes before go.
var abc = Formation{Cluster: "red", Founders: []string{"a", "b", "c"}, Shards: 4, Replicas: 3}

func going(f Formation) *Formation {
	f.Go = true
	return &f
}

func fresh(node string) Member { return Member{Node: node, Expect: 3, State: MemberAlive} }

func founder(node string, f *Formation) Member {
	return Member{Node: node, Expect: 3, State: MemberAlive, Cluster: f.Cluster, Formation: f}
}

func in(node, cluster string) Member { return Member{Node: node, Cluster: cluster, State: MemberAlive} }

func gone(m Member, state MemberState) Member {
	m.State = state
	return m
}

func TestWhatANodeDoesNext(t *testing.T) {
	a := Member{Node: "a", Expect: 3}
	b := Member{Node: "b", Expect: 3}
	b2 := Formation{Cluster: "blue", Founders: []string{"b", "c", "d"}}
	withOne := Member{Node: "b", Expect: 1}
	joiner := Member{Node: "a"}
	created := Member{Node: "a", Expect: 3, Cluster: "red", Formation: &abc}
	accepted := Member{Node: "b", Expect: 3, Cluster: "red", Formation: &abc}
	for _, c := range []struct {
		name    string
		self    Member
		members []Member
		want    FormationAction
		says    string
	}{
		{"alone", a, nil, FormWait, "1 of 3"},
		{"itself is not two", a, []Member{fresh("a"), fresh("b")}, FormWait, "2 of 3"},
		{"three, the lowest", a, []Member{fresh("a"), fresh("b"), fresh("c")}, FormPropose, "a, b, c"},
		{"three, not the lowest", b, []Member{fresh("a"), fresh("c")}, FormWait, "a is the lowest"},
		{"one founds alone", withOne, nil, FormPropose, "b"},
		{"one that must not found", joiner, []Member{fresh("b"), fresh("c"), fresh("d")}, FormWait, "founds none"},
		{"one that only joins is not counted", a, []Member{fresh("b"), in("c", "")}, FormWait, "2 of 3"},
		{"different numbers", a, []Member{fresh("b"), fresh("c"), {Node: "d", Expect: 5, State: MemberAlive}}, FormWait,
			"3 here and 5 at d"},
		{"a suspect does not count", a, []Member{fresh("b"), gone(fresh("c"), MemberSuspect)}, FormWait, "2 of 3"},
		{"one that left does not count", a, []Member{fresh("b"), gone(fresh("c"), MemberLeft)}, FormWait, "2 of 3"},

		{"a cluster that exists", a, []Member{in("b", "red"), fresh("c"), fresh("d")}, FormJoin, "red"},
		{"one that was just founded", a, []Member{founder("b", going(b2)), fresh("c"), fresh("d")}, FormJoin, "blue"},
		{"two clusters", a, []Member{in("b", "red"), in("c", "blue")}, FormWait, `"blue" with c and "red" with b`},
		{"a cluster that is gone is not joined", joiner, []Member{gone(in("b", "red"), MemberSuspect)}, FormWait,
			"no cluster"},
		{"nor is another founded beside it", a, []Member{gone(in("x", "red"), MemberSuspect), fresh("b"), fresh("c")},
			FormWait, `"red" was seen`},
		{"a late fourth waits for the founders", Member{Node: "d", Expect: 3},
			[]Member{founder("a", &abc), fresh("b"),
				fresh("c")}, FormWait, "joins it then"},
		{"and joins what they founded", Member{Node: "d", Expect: 3}, []Member{founder("a", going(abc)),
			founder("b", &abc), founder("c", &abc)}, FormJoin, "red"},

		{"a proposal that names it", b, []Member{founder("a", &abc), fresh("c")}, FormAccept, "a founds"},
		{"whose creator is not here", b, []Member{founder("c", &abc)}, FormWait, "a was not seen"},
		{"whose creator is suspect", b, []Member{gone(founder("a", &abc), MemberSuspect), founder("c", &abc)}, FormWait,
			"a is suspect"},
		{"of another number of nodes", withOne, []Member{founder("a", &abc)}, FormWait, "--bootstrap-expect is 1"},
		{"that cannot come to anything", b, []Member{founder("a", &abc), founder("c", &Formation{Cluster: "blue",
			Founders: []string{"c", "d", "e"}})}, FormWait, "c belongs to cluster \"blue\""},
		{"the better of two", Member{Node: "c", Expect: 3}, []Member{founder("a", &abc), founder("b", &b2)},
			FormAccept, "b founds"},
		{"emptied after go", b, []Member{founder("a", going(abc)), founder("c", &abc)}, FormJoin, "red"},

		{"not all have accepted", created, []Member{founder("b", &abc), fresh("c")}, FormWait, "c has accepted none"},
		{"one is suspect", created, []Member{founder("b", &abc), gone(founder("c", &abc), MemberSuspect)}, FormWait,
			"c is suspect"},
		{"one belongs elsewhere", created, []Member{founder("b", &abc), in("c", "blue")}, FormWait,
			"empty the data dirs"},
		{"all have accepted", created, []Member{founder("b", &abc), founder("c", &abc)}, FormGo, "every founder"},
		{"the creator emptied before go", a, []Member{founder("b", &abc), founder("c", &abc)}, FormAccept, "a founds"},
		{"the creator emptied, one not seen", a, []Member{founder("b", &abc)}, FormWait, "c was not seen"},
		{"the creator emptied after go", created, []Member{founder("b", going(abc))}, FormJoin,
			"before this node's data dir"},

		{"accepted", accepted, []Member{founder("a", &abc), founder("c", &abc)}, FormWait, "a has accepted it"},
		{"told to go", accepted, []Member{founder("a", going(abc))}, FormFound, "says a"},
		{"told to go by another", accepted, []Member{founder("c", going(abc))}, FormFound, "says c"},
		{"told before the creator died", accepted, []Member{gone(founder("a", going(abc)), MemberSuspect)},
			FormFound, "says a"},
		{"late, when all others have long founded", accepted, []Member{in("a", "red")}, FormFound, "says a"},
		{"kept go", Member{Node: "a", Formation: going(abc)}, nil, FormFound, "red"},
		{"founded", Member{Node: "a", Expect: 3, Cluster: "red"}, []Member{fresh("b"), fresh("c")},
			FormJoin, "red"},
		{"damaged", Member{Node: "a", Cluster: "blue", Formation: &abc}, nil, FormWait, "damaged"},
		{"damaged too", Member{Node: "a", Formation: &Formation{}}, nil, FormWait, "damaged"},
	} {
		step := Form(c.self, c.members)
		if step.Action != c.want || !strings.Contains(step.Why, c.says) {
			t.Errorf("%s: %d because %q; want %d and %q", c.name, step.Action, step.Why, c.want, c.says)
		}
		if acts := step.Action == FormGo || step.Action == FormFound; acts && !step.Formation.Go {
			t.Errorf("%s: the formation to keep has no Go", c.name)
		}
	}
	if abc.Go {
		t.Error("a formation was changed that others hold")
	}
}

// village is a set of nodes with unreliable gossip: each acts on the messages that it happens to have received.
type village struct {
	t       *testing.T
	rand    *rand.Rand
	expect  int
	nodes   []*villager
	cut     map[[2]string]bool
	drawn   int
	went    map[string]*Formation // every cluster for which a node ever kept go
	emptied map[string]bool
	log     []string
}

// villager is a node: its disk, and its process if it runs.
type villager struct {
	Member  // on disk
	up      bool
	said    Member // its announcement
	version int    // of said
	heard   map[string]hearsay
	settled bool // it belongs to an existing cluster, and knows it
}

type hearsay struct {
	Member
	version int
}

func newVillage(t *testing.T, seed uint64, nodes, expect int) *village {
	v := &village{t: t, rand: rand.New(rand.NewPCG(seed, 7)), expect: expect, cut: map[[2]string]bool{},
		went: map[string]*Formation{}, emptied: map[string]bool{}}
	for i := range nodes {
		v.nodes = append(v.nodes, &villager{Member: Member{Node: string(rune('a' + i)), Expect: expect}})
	}
	return v
}

func (v *village) note(format string, args ...any) {
	v.log = append(v.log, fmt.Sprintf(format, args...))
}

func (v *village) fail(format string, args ...any) {
	v.t.Helper()
	v.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(v.log, "\n"))
}

func (v *village) start(n *villager) {
	n.up, n.settled, n.heard = true, false, map[string]hearsay{}
	v.note("%s starts with %q, %+v", n.Node, n.Cluster, n.Formation)
	v.announce(n)
}

// announce announces the content of the disk.
func (v *village) announce(n *villager) {
	n.version++
	n.said = Member{Node: n.Node, Cluster: n.Cluster, Expect: n.Expect, Formation: n.Formation, State: MemberAlive}
	for id, h := range n.heard {
		if foreign(n.Cluster, h.Cluster) {
			delete(n.heard, id)
		}
	}
}

// tell gives one node's announcement, or its knowledge of a third node, to another node.
func (v *village) tell(from, to *villager, about string) {
	if !from.up || !to.up || from == to || about == to.Node || v.cut[[2]string{from.Node, to.Node}] {
		return
	}
	news := hearsay{from.said, from.version}
	if about != from.Node {
		known, ok := from.heard[about]
		if !ok {
			return
		}
		news = known
	}
	switch old := to.heard[about]; {
	case foreign(to.Cluster, news.Cluster):
		delete(to.heard, about)
	case about == from.Node || news.version > old.version:
		to.heard[about] = news
	}
}

// act has a node carry out the step of Form. The node may crash after it kept something and before it announced it.
func (v *village) act(n *villager, mayCrash bool) {
	if !n.up || n.settled {
		return
	}
	var members []Member
	for _, h := range n.heard {
		members = append(members, h.Member)
	}
	step := Form(n.Member, members)
	if step.Action == FormWait {
		return
	}
	v.note("%s: %d because %s", n.Node, step.Action, step.Why)
	before := n.Cluster
	switch step.Action {
	case FormPropose:
		v.drawn++
		n.Formation = &Formation{Cluster: fmt.Sprint("cluster-", v.drawn), Founders: step.Founders}
		n.Cluster = n.Formation.Cluster
	case FormAccept, FormGo, FormFound:
		n.Formation, n.Cluster = step.Formation, step.Formation.Cluster
	case FormJoin:
		n.Formation, n.Cluster = nil, step.Cluster
	}
	v.check(n, &step, before)
	if mayCrash && v.rand.IntN(10) == 0 {
		n.up = false
		v.note("%s crashes before it says so", n.Node)
		return
	}
	v.announce(n)
	if step.Action == FormFound || step.Action == FormJoin {
		n.settled, n.Formation = true, nil // on disk; the announcement stays until it restarts
	}
}

// check verifies the invariants.
func (v *village) check(n *villager, step *FormationStep, before string) {
	v.t.Helper()
	if before != "" && n.Cluster != before {
		v.fail("%s changed from cluster %s to %s", n.Node, before, n.Cluster)
	}
	switch step.Action {
	case FormGo:
		v.went[n.Cluster] = step.Formation
	case FormFound, FormJoin:
		if v.went[n.Cluster] == nil {
			v.fail("%s goes into cluster %s, which nobody told to go", n.Node, n.Cluster)
		}
	}
	for id, f := range v.went {
		for _, node := range v.nodes {
			if slices.Contains(f.Founders, node.Node) && !v.emptied[node.Node] && node.Cluster != id {
				v.fail("cluster %s was founded with %s, which belongs to %q", id, node.Node, node.Cluster)
			}
		}
	}
}

func (v *village) any() *villager { return v.nodes[v.rand.IntN(len(v.nodes))] }

// misfortune makes one random fault happen.
func (v *village) misfortune(mayEmpty bool) {
	n, other := v.any(), v.any()
	switch roll := v.rand.IntN(100); {
	case roll < 50:
		v.tell(n, other, v.any().Node)
	case roll < 60:
		v.tell(n, other, n.Node)
	case roll < 85:
		v.act(n, true)
	case roll < 89:
		if h, ok := n.heard[other.Node]; ok {
			h.State = MemberSuspect
			n.heard[other.Node] = h
		}
	case roll < 92 && n.up:
		n.up = false
		v.note("%s crashes", n.Node)
	case roll < 96 && !n.up:
		v.start(n)
	case roll < 97 && mayEmpty && v.mayEmpty(n):
		n.up, n.Cluster, n.Formation = false, "", nil
		v.emptied[n.Node] = true
		v.note("%s is emptied", n.Node)
	case roll < 98:
		v.cut[[2]string{n.Node, other.Node}] = v.rand.IntN(2) == 0
	}
}

// mayEmpty reports whether a node's disk may be emptied: only before go, and only one at a time, so that the others
// still know.
func (v *village) mayEmpty(n *villager) bool {
	return v.went[n.Cluster] == nil && (len(v.emptied) == 0 || v.emptied[n.Node])
}

// heal starts all nodes and lets them exchange announcements until nothing changes.
func (v *village) heal() {
	v.note("all is well again")
	clear(v.cut)
	for _, n := range v.nodes {
		if !n.up {
			v.start(n)
		}
	}
	for range 6 * len(v.nodes) {
		for _, from := range v.nodes {
			for _, to := range v.nodes {
				v.tell(from, to, from.Node)
			}
		}
		for _, n := range v.nodes {
			v.act(n, false)
		}
	}
}

// isTorn reports whether some formation can never complete, because founders of it took the id of another.
func (v *village) isTorn() bool {
	for _, n := range v.nodes {
		if n.settled || n.Formation == nil {
			continue
		}
		for _, other := range v.nodes {
			if slices.Contains(n.Formation.Founders, other.Node) && foreign(n.Cluster, other.Cluster) {
				return true
			}
		}
	}
	return false
}

func TestWhateverHappensAtMostOneClusterIsFounded(t *testing.T) {
	founded, torn, emptied := 0, 0, 0
	for seed := range uint64(4000) {
		nodes, expect := 1+int(seed%5), 1+int(seed/5%4)
		v := newVillage(t, seed, nodes, expect)
		v.note("seed %d: %d nodes, %d expected", seed, nodes, expect)
		mayEmpty := seed%3 == 0
		for range v.rand.IntN(400) {
			v.misfortune(mayEmpty)
		}
		founded += len(v.went)
		emptied += len(v.emptied)
		v.heal()
		if v.isTorn() {
			torn++
			if nodes == expect {
				v.fail("nobody but the founders is here, and they do not agree")
			}
			continue
		}
		if nodes < expect {
			continue
		}
		for _, n := range v.nodes {
			if !n.settled && len(v.went) < 2 {
				v.fail("%s is still in no cluster", n.Node)
			}
		}
		if len(v.went) != 1 && nodes < 2*expect {
			v.fail("%d clusters were founded", len(v.went))
		}
	}
	if founded < 1000 || torn < 10 || emptied < 100 {
		t.Errorf("too little happened: %d clusters founded in trouble, %d villages torn, %d nodes emptied",
			founded, torn, emptied)
	}
}
