package gossip

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/stint-io/stint/internal/testing/await"
)

// longText is too long for an id, but valid as any other text.
var longText = strings.Repeat("n", 200)

// gossipPace detects every change within a second.
var gossipPace = pace{
	probe:  100 * time.Millisecond,
	gossip: 20 * time.Millisecond,
	alone:  20 * time.Millisecond,
	rejoin: 50 * time.Millisecond,
	stream: 3 * time.Second,
}

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // they mostly wait
	// A probe that was under way when gossip stopped ends by itself, seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

func gossipConfig(node string, seeds ...*Gossip) Config {
	c := Config{Addr: "127.0.0.1:0", Member: Member{Node: node, PeerAddr: "127.0.0.1:7401", APIAddr: "127.0.0.1:7400"},
		Registered: func() []string { return nil }, OnChange: func() {}, Streams: 64, OnRefused: func(string) {},
		Hints: NewHints(16), Logger: slog.New(slog.DiscardHandler), pace: gossipPace}
	for _, seed := range seeds {
		c.Seeds = append(c.Seeds, seed.Addr())
	}
	return c
}

func startGossip(t *testing.T, config Config) *Gossip {
	t.Helper()
	g, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g
}

// Addr returns the gossip address that the other nodes know.
func (g *Gossip) Addr() string {
	for _, member := range g.Members() {
		if member.Node == g.config.Node {
			return member.GossipAddr
		}
	}
	return ""
}

// crashGossip ends a node without a goodbye.
func crashGossip(g *Gossip) {
	g.stop.Do(func() {
		g.cancel()
		g.running.Wait()
		g.list.Shutdown()
	})
}

// roll returns a node's view as "a:alive b:left".
func roll(g *Gossip) string {
	var seen []string
	for _, member := range g.Members() {
		seen = append(seen, member.Node+":"+member.State.String())
	}
	return strings.Join(seen, " ")
}

func awaitRoll(t *testing.T, want string, nodes ...*Gossip) {
	t.Helper()
	for _, g := range nodes {
		await.Until(t, g.config.Node+" sees "+want, func() bool { return roll(g) == want })
	}
}

func TestThreeNodesFindEachOtherThroughOneSeed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		var changes atomic.Int64
		first := n.config("a")
		first.OnChange = func() { changes.Add(1) }
		a := startGossip(t, first)
		second := n.config("b", a)
		second.Zone, second.Version, second.PeerAddr = "z2", "1.2.3", "0.0.0.0:7401"
		b := startGossip(t, second)
		c := startGossip(t, n.config("c", a))
		awaitRoll(t, "a:alive b:alive c:alive", a, b, c)

		want := Member{Node: "b", Zone: "z2", Version: "1.2.3", GossipAddr: b.Addr(), PeerAddr: "127.0.0.1:7401",
			APIAddr: "127.0.0.1:7400", State: MemberAlive}
		if got := c.Members()[1]; got != want {
			t.Errorf("c knows %+v, want %+v", got, want)
		}
		for _, g := range []*Gossip{a, b, c} {
			if err := g.SetCluster("red"); err != nil {
				t.Fatal(err)
			}
		}
		await.Until(t, "everybody is known to be in the cluster", func() bool {
			return !slices.ContainsFunc(a.Members(), func(m Member) bool { return m.Cluster != "red" })
		})
		if err := b.SetCluster("blue"); err == nil {
			t.Error("a node accepted a second cluster")
		}
		await.Until(t, "OnChange was called", func() bool { return changes.Load() > 0 })
	})
}

func TestANodeThatDiesIsSuspectAndOneThatStopsHasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		a := startGossip(t, n.config("a"))
		b := startGossip(t, n.config("b", a))
		c := startGossip(t, n.config("c", a))
		awaitRoll(t, "a:alive b:alive c:alive", a, b, c)
		c.Stop()
		awaitRoll(t, "a:alive b:alive c:left", a, b)
		crashGossip(b)
		awaitRoll(t, "a:alive b:suspect c:left", a)
	})
}

func TestHintsReachEverybodyAndTheHighestEpochWins(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		configs := []Config{n.config("a"), n.config("b"), n.config("c")}
		var nodes []*Gossip
		for i := range configs {
			configs[i].Cluster = "red"
			configs[i].pace.rejoin = time.Hour // no full exchange except for the one on joining
			if i > 0 {
				configs[i].Seeds = []string{nodes[0].Addr()}
			}
			nodes = append(nodes, startGossip(t, configs[i]))
		}
		awaitRoll(t, "a:alive b:alive c:alive", nodes...)
		nodes[1].AnnounceOwner(3, 20)
		nodes[2].AnnounceOwner(3, 10)
		nodes[2].AnnounceOwner(4, 11)
		everywhere := func(want Hint, nodes ...*Gossip) {
			t.Helper()
			for _, g := range nodes {
				await.Until(t, fmt.Sprintf("%s knows %+v", g.config.Node, want), func() bool {
					got, _ := g.config.Hints.Lookup(want.Shard)
					return got == want
				})
			}
		}
		everywhere(Hint{3, 20, "b"}, nodes...)
		everywhere(Hint{4, 11, "c"}, nodes...)

		for _, g := range nodes {
			await.Until(t, "nobody tells it any more", func() bool { return g.callbacks.outgoing.NumQueued() == 0 })
		}
		late := n.config("d", nodes[0])
		late.Cluster = "red"
		d := startGossip(t, late)
		everywhere(Hint{3, 20, "b"}, d) // it arrived with the join
		d.AnnounceOwner(3, 30)
		everywhere(Hint{3, 30, "d"}, append(nodes, d)...)
	})
}

func TestHintsOfAnotherClusterAreNotTaken(t *testing.T) {
	for _, cluster := range []string{"blue", ""} {
		config := gossipConfig("a")
		config.Cluster = cluster
		c := newCallbacks(&config, Member{Cluster: cluster})
		c.NotifyMsg(encodeHints("red", []Hint{{1, 1, "b"}}))
		c.MergeRemoteState(encodeHints("red", []Hint{{2, 1, "b"}}), true)
		c.NotifyMsg(encodeHints("", []Hint{{3, 1, "b"}}))
		if all := config.Hints.all(); len(all) > 0 {
			t.Errorf("a node of cluster %q took %+v", cluster, all)
		}
	}
}

func TestAHintThatIsNewsIsToldOnOnce(t *testing.T) {
	config := gossipConfig("a")
	c := newCallbacks(&config, Member{Cluster: "red"})
	message := encodeHints("red", []Hint{{1, 5, "b"}})
	c.NotifyMsg(message)
	if told := c.GetBroadcasts(2, 1400); len(told) != 1 || !bytes.Equal(told[0], message) {
		t.Fatalf("told on: %q, want the hint", told)
	}
	for range 100 {
		c.GetBroadcasts(2, 1400)
	}
	c.NotifyMsg(message)
	if told := c.GetBroadcasts(2, 1400); told != nil {
		t.Errorf("old news was told on: %q", told)
	}
}

func TestNodesOfAnotherClusterAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		red := n.config("a")
		red.Cluster = "red"
		a := startGossip(t, red)
		blue := n.config("b", a)
		blue.Cluster = "blue"
		b := startGossip(t, blue)
		if got := b.seekOnce(t.Context()); !strings.Contains(got, "another cluster") || !strings.Contains(got, `"red"`) {
			t.Errorf("the refusal reads %q", got)
		}
		awaitRoll(t, "a:alive", a)
		awaitRoll(t, "b:alive", b)

		newcomer := startGossip(t, n.config("c", a, b))
		awaitRoll(t, "a:alive b:alive c:alive", newcomer)
		awaitRoll(t, "a:alive c:alive", a)
		awaitRoll(t, "b:alive c:alive", b)
		if err := newcomer.SetCluster("red"); err != nil {
			t.Fatal(err)
		}
		awaitRoll(t, "a:alive c:alive", a, newcomer)
		awaitRoll(t, "b:alive", b)
	})
}

func TestOneWhoJoinsAClusterNoLongerSeesAnother(t *testing.T) {
	config := gossipConfig("a")
	c := newCallbacks(&config, Member{})
	for _, cluster := range []string{"", "red", "blue"} {
		told, _ := (&Member{Cluster: cluster}).encode()
		c.NotifyJoin(&memberlist.Node{Name: "in " + cluster, Meta: told})
	}
	c.members.become(Member{Cluster: "red"})
	for _, member := range c.members.list() {
		if member.Cluster == "blue" {
			t.Errorf("still listed: %+v", member)
		}
	}
	if seen := len(c.members.list()); seen != 2 {
		t.Errorf("%d nodes are listed, want 2", seen)
	}
}

// saying has the lines of a log; the last ones are dropped.
type saying chan string

func (s saying) Write(line []byte) (int, error) {
	select {
	case s <- string(line):
	default:
	}
	return len(line), nil
}

func TestAWrongKeyIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		key := bytes.Repeat([]byte{7}, gossipKeyBytes)
		locked := n.config("a")
		locked.Keys = [][]byte{key}
		a := startGossip(t, locked)
		for _, wrong := range [][][]byte{nil, {bytes.Repeat([]byte{8}, gossipKeyBytes)}} {
			config, said := n.config("b", a), make(saying, 100)
			config.Keys, config.Logger = wrong, slog.New(slog.NewTextHandler(said, nil))
			b := startGossip(t, config)
			for line := ""; !strings.Contains(line, "some nodes cannot be reached"); {
				line = await.Receive(t, "it says that it finds nobody", said)
			}
			if b.seekOnce(t.Context()) == "" {
				t.Errorf("a node with key %x joined", wrong)
			}
			if roll(a) != "a:alive" || roll(b) != "b:alive" {
				t.Errorf("key %x: the nodes see %q and %q", wrong, roll(a), roll(b))
			}
			b.Stop()
		}
		config := n.config("c", a)
		config.Keys = [][]byte{key}
		c := startGossip(t, config)
		awaitRoll(t, "a:alive c:alive", a, c)
	})
}

// Each step keeps all nodes together; a node that was left out of the last step is not heard any more.
func TestKeysAreReplacedWhileNodesGossip(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		old, fresh := bytes.Repeat([]byte{7}, gossipKeyBytes), bytes.Repeat([]byte{8}, gossipKeyBytes)
		var nodes []*Gossip
		for _, name := range []string{"a", "b", "c"} {
			config := n.config(name, nodes...)
			config.Keys = [][]byte{old}
			nodes = append(nodes, startGossip(t, config))
		}
		awaitRoll(t, "a:alive b:alive c:alive", nodes...)
		for step, keys := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}} {
			for i, g := range nodes {
				if err := g.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				if err := g.SetCluster("red"); err != nil { // news travel
					t.Fatal(err)
				}
				late := n.config(fmt.Sprintf("late%d%d", step, i), nodes...)
				late.Keys = keys
				n := startGossip(t, late)
				await.Until(t, "a node with the keys of this step gets in", func() bool { return len(n.Members()) >= 4 })
				n.Stop()
			}
		}
		stale := n.config("stale", nodes...)
		stale.Keys = [][]byte{old}
		if startGossip(t, stale).seekOnce(t.Context()) == "" {
			t.Error("a node with the old key alone joined")
		}
		last := n.config("last", nodes...) // it is heard after the stale one was
		last.Keys = [][]byte{fresh}
		startGossip(t, last)
		await.Until(t, "all know the last node", func() bool {
			return !slices.ContainsFunc(nodes, func(g *Gossip) bool { return !strings.Contains(roll(g), "last:alive") })
		})
		for _, g := range nodes {
			if strings.Contains(roll(g), "stale") {
				t.Errorf("a node with the old key alone is listed: %s", roll(g))
			}
		}
		if err := nodes[0].SetKeys(nil); err == nil {
			t.Error("all keys were taken away")
		}
	})
}

// memberlist neither probes nor gossips to a node that left: only our own search can find it.
func TestARegisteredNodeIsFoundAgainAfterACut(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		first := n.config("b")
		b := startGossip(t, first)
		address := b.Addr()
		config := n.config("a")
		config.Registered = func() []string { return []string{address} }
		a := startGossip(t, config)
		awaitRoll(t, "a:alive b:alive", a, b)
		b.Stop()
		awaitRoll(t, "a:alive b:left", a)
		first.Addr = address
		again := startGossip(t, first) // it knows no seed
		awaitRoll(t, "a:alive b:alive", a, again)
	})
}

func TestANodeMayComeBackAtAnotherAddress(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		a := startGossip(t, n.config("a"))
		b := startGossip(t, n.config("b", a))
		awaitRoll(t, "a:alive b:alive", a, b)
		crashGossip(b)
		again := startGossip(t, n.config("b", a))
		await.Until(t, "a knows b's new address", func() bool {
			members := a.Members()
			return len(members) == 2 && members[1].GossipAddr == again.Addr() && members[1].State == MemberAlive
		})
	})
}

func TestSeedNamesAreLookedUpUntilSomebodyIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		a := startGossip(t, n.config("a"))
		port := netip.MustParseAddrPort(a.Addr()).Port()
		zone := &zoneFile{names: map[string][]string{}}
		config := n.config("b")
		config.Resolver = zone
		config.Seeds = []string{fmt.Sprintf("stint.test:%d", port)}
		b := startGossip(t, config)
		await.Until(t, "the name was asked for several times", func() bool { return zone.lookups() > 2 })
		zone.set("stint.test", "127.0.0.9", "127.0.0.1") // no node is at the first address
		awaitRoll(t, "a:alive b:alive", a, b)
	})
}

func TestItsOwnAddressAmongTheSeedsIsPassedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		a := startGossip(t, n.config("a"))
		address := a.Addr()
		a.Stop()
		config := n.config("a")
		config.Addr, config.Seeds = address, []string{address}
		again := startGossip(t, config)
		if missing, err := again.missing(t.Context()); err != nil || len(missing) > 0 {
			t.Errorf("a node looks for itself: %v, %v", missing, err)
		}
	})
}

func TestStopDoesNotWaitForASilentSeed(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	config := gossipConfig("a")
	config.Seeds, config.pace.stream = []string{silent.Addr().String()}, time.Hour
	a := startGossip(t, config)
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stopped := make(chan struct{})
	go func() { a.Stop(); close(stopped) }()
	await.Receive(t, "it stops", stopped)
}

func TestWhatCannotWorkIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*Config){
		"a key has not 32 bytes": func(c *Config) { c.Keys = [][]byte{[]byte("short")} },
		"cluster-key: gossip on": func(c *Config) { c.Addr = "0.0.0.0:0" },
		"gossip-addr":            func(c *Config) { c.Addr = "7402" },
		"peer-addr":              func(c *Config) { c.PeerAddr = "" },
		"api-addr":               func(c *Config) { c.APIAddr = "localhost" },
		"join[0]":                func(c *Config) { c.Seeds = []string{"node-2"} },
		"node id":                func(c *Config) { c.Node = "" },
		"shorten the zone": func(c *Config) {
			c.Zone, c.Version = longText, longText
			c.PeerAddr = longText + ":7401"
		},
		"bootstrap-expect":           func(c *Config) { c.Expect = -1 },
		"formation":                  func(c *Config) { c.Cluster, c.Formation = "blue", &abc },
		"Hints must be given":        func(c *Config) { c.Hints = nil },
		"node id \"" + longText[:80]: func(c *Config) { c.Node = longText },
	} {
		config := gossipConfig("a")
		config.Resolver = &zoneFile{}
		change(&config)
		g, err := Start(config)
		if err == nil {
			g.Stop()
			t.Errorf("%s: started", field)
		} else if !strings.Contains(err.Error(), field) {
			t.Errorf("%v: does not name %s", err, field)
		}
	}
}

func TestAnAddressThatOthersCannotDialIsNotAnnounced(t *testing.T) {
	t.Parallel()
	config := gossipConfig("a")
	config.Addr, config.Insecure, config.Advertise = "0.0.0.0:0", true, "node-a.test"
	config.PeerAddr, config.APIAddr = "[::]:7401", ":7400"
	config.Resolver = &zoneFile{names: map[string][]string{"node-a.test": {"fd00::7", "127.0.0.7"}}}
	a := startGossip(t, config)
	got := a.Members()[0]
	port := netip.MustParseAddrPort(got.GossipAddr).Port()
	want := Member{Node: "a", GossipAddr: fmt.Sprintf("127.0.0.7:%d", port), PeerAddr: "node-a.test:7401",
		APIAddr: "node-a.test:7400", State: MemberAlive}
	if got != want || port == 0 {
		t.Errorf("announced %+v, want %+v", got, want)
	}
}

// With a proxy or NAT in front, the advertised host replaces addresses that only this machine knows.
func TestAnAdvertisedHostTakesThePlaceOfSpecificAddresses(t *testing.T) {
	t.Parallel()
	config := gossipConfig("a")
	config.Advertise, config.APIAddr = "node-a.test", "10.0.0.7:7400"
	config.Resolver = &zoneFile{names: map[string][]string{"node-a.test": {"127.0.0.7"}}}
	a := startGossip(t, config)
	got := a.Members()[0]
	port := netip.MustParseAddrPort(got.GossipAddr).Port()
	want := Member{Node: "a", GossipAddr: fmt.Sprintf("127.0.0.7:%d", port), PeerAddr: "node-a.test:7401",
		APIAddr: "node-a.test:7400", State: MemberAlive}
	if got != want || port == 0 {
		t.Errorf("announced %+v, want %+v", got, want)
	}
}

// Three gossiping nodes found one cluster by carrying out Form, and a fourth joins later.
func TestThreeNodesFoundAClusterAndAFourthJoinsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memoryNet) {
		var nodes []*Gossip
		selves := map[string]*Member{}
		add := func(node string) {
			config := n.config(node, nodes...)
			config.Expect = 3
			nodes = append(nodes, startGossip(t, config))
			selves[node] = &Member{Node: node, Expect: 3}
		}
		act := func(g *Gossip) (done bool) {
			self := selves[g.config.Node]
			step := Form(*self, g.Members())
			switch step.Action {
			case FormPropose:
				self.Formation = &Formation{Cluster: "red", Founders: step.Founders, Shards: 4, Replicas: 3}
			case FormAccept, FormGo, FormFound:
				self.Formation = step.Formation
			case FormJoin:
				self.Cluster = step.Cluster
				if err := g.SetCluster(step.Cluster); err != nil {
					t.Error(err)
				}
				return true
			case FormWait:
				return false
			}
			self.Cluster = self.Formation.Cluster
			if err := g.Announce(*self.Formation); err != nil {
				t.Error(err)
			}
			return step.Action == FormFound
		}
		for _, node := range []string{"c", "a", "b"} {
			add(node)
		}
		for _, g := range nodes {
			await.Until(t, g.config.Node+" has founded", func() bool {
				for _, other := range nodes {
					if other != g {
						act(other)
					}
				}
				return act(g)
			})
		}
		add("d")
		await.Until(t, "d has joined", func() bool { return act(nodes[3]) })
		if got := selves["d"].Cluster; got != "red" {
			t.Errorf("d is of cluster %q", got)
		}
		await.Until(t, "everybody tells d what they founded", func() bool {
			for _, m := range nodes[3].Members()[:3] {
				if m.Cluster != "red" || m.Expect != 3 || m.Formation == nil || !m.Formation.Go ||
					len(m.Formation.Founders) != 3 {
					return false
				}
			}
			return true
		})
		if err := nodes[0].Announce(Formation{Cluster: "blue", Founders: []string{"c"}}); err == nil {
			t.Error("a node founded a second cluster")
		}
		if err := nodes[0].Announce(Formation{Cluster: "red", Founders: []string{"b", "a"}}); err == nil {
			t.Error("a formation that cannot be told was announced")
		}
	})
}

func TestWhatIsNotOfANodeOfOursIsKeptOut(t *testing.T) {
	config := gossipConfig("a")
	c := newCallbacks(&config, Member{Cluster: "red"})
	good, _ := (&Member{Cluster: "red"}).encode()
	for name, node := range map[string]*memberlist.Node{
		"no meta":      {Name: "b"},
		"foreign meta": {Name: "b", Meta: []byte("hello")},
		"no name":      {Meta: good},
		"long name":    {Name: longText, Meta: good},
		"control":      {Name: "\x1b[2J", Meta: good},
	} {
		if c.NotifyAlive(node) == nil {
			t.Errorf("%s: let in", name)
		}
	}
	if err := c.NotifyAlive(&memberlist.Node{Name: "b", Meta: good}); err != nil {
		t.Errorf("one of ours: %v", err)
	}
}
