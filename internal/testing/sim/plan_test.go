package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// plan is drawn from a seed before a world begins: the shape of the world, and its faults with their times.
type plan struct {
	seed          uint64
	founders      int // number of founding nodes; 1: the others join it
	nodes         int // at the beginning
	shards        int
	replicas      int
	clients       int
	delay         time.Duration // of every message
	replaceAfter  time.Duration
	snapshotEvery uint64 // entries
	calm          bool   // nothing fails, and all events are planned: then no request may fail
	faults        []fault
}

// fault is one fault in a world.
type fault struct {
	at    time.Duration // after the cluster is founded
	kind  string
	whom  int // machine, from 0; wraps around if there are fewer
	other int
	long  time.Duration
	size  float64 // strength, from 0 to 1

	shards uint32 // that are asked for (changeShards)
}

func (f fault) String() string {
	s := fmt.Sprintf("%7.2fs %-14s n%d n%d %6v size %.2f", f.at.Seconds(), f.kind, f.whom+1, f.other+1,
		f.long.Round(time.Millisecond), f.size)
	if f.kind == changeShards {
		s += fmt.Sprintf(" to %d", f.shards)
	}
	return s
}

// The times of a world.
const (
	troubled = 80 * time.Second  // the time within which faults come
	whole    = 120 * time.Second // the least duration of a world
)

// kinds are the faults, with the weight of each.
var kinds []kind

type kind struct {
	name   string
	weight int
	do     func(w *world, f fault)
}

func init() { // breaks an initialization cycle
	kinds = []kind{
		{"crash", 14, (*world).doCrash},
		{"crash two", 4, (*world).doCrashTwo},
		{"crash all", 2, (*world).doCrashAll},
		{"restart", 6, (*world).doRestart},
		{"isolate", 8, (*world).doIsolate},
		{"cut", 10, (*world).doCut},
		{"cut one way", 8, (*world).doCutOneWay},
		{"break", 5, (*world).doBreak},
		{"delay", 8, (*world).doDelay},
		{"loss", 6, (*world).doLoss},
		{"slow disk", 6, (*world).doSlowDisk},
		{"hung disk", 4, (*world).doHungDisk},
		{"failing disk", 4, (*world).doFailingDisk},
		{"wiped disk", 3, (*world).doWipe},
		{"pause", 6, (*world).doPause},
		{"clock step", 8, (*world).doStep},
		{"clock far off", 1, (*world).doFarOff},
		{"suspend", 4, (*world).doSuspend},
		{"gossip cut", 5, (*world).doGossipCut},
		{"join", 3, (*world).doJoin},
		{"drain", 4, (*world).doDrain},
		{"remove", 2, (*world).doRemove},
		{"policies", 8, (*world).doPolicies},
		{secondProcess, 0, (*world).doSecond},
		{secondByCopy, 0, (*world).doSecondByCopy},
		{secondOfAHalt, 0, (*world).doSecondOfAHalt},
		{crashAtMinute, 0, (*world).doCrashAtMinute},
		{changeShards, 0, (*world).doShards},
	}
}

func newPlan(seed uint64) *plan {
	chance := rand.New(rand.NewPCG(seed, 0))
	p := &plan{seed: seed, founders: 3, nodes: 3, replicas: 3,
		shards:       []int{1, 2, 2, 3, 3}[chance.IntN(5)],
		clients:      4 + chance.IntN(5),
		delay:        []time.Duration{200 * time.Microsecond, time.Millisecond, 3 * time.Millisecond}[chance.IntN(3)],
		replaceAfter: []time.Duration{8 * time.Second, 20 * time.Second, 5 * time.Minute}[chance.IntN(3)],
	}
	p.snapshotEvery = []uint64{40, 100, 250}[seed%3]
	switch shape := chance.IntN(20); {
	case shape < 2:
		p.founders = 1
	case shape < 4:
		p.nodes = 4
	case shape < 5:
		p.nodes, p.founders, p.shards = 5, 5, 1
		p.replicas = []int{3, 5}[chance.IntN(2)]
	}
	if p.calm = chance.IntN(12) == 0; p.calm {
		p.planCalm(chance)
		p.planSecond()
		p.planShards()
		return p
	}
	gap := []float64{3, 5, 8}[chance.IntN(3)]
	for at := 2.0; ; {
		at += chance.ExpFloat64() * gap
		if at > troubled.Seconds() {
			break
		}
		f := fault{at: time.Duration(at * float64(time.Second)), whom: chance.IntN(8), other: chance.IntN(8),
			long: time.Duration((0.2 + chance.ExpFloat64()*3) * float64(time.Second)), size: chance.Float64()}
		f.long = min(f.long, 15*time.Second)
		f.kind = drawKind(chance)
		p.faults = append(p.faults, f)
	}
	if seed%2 == 1 {
		p.planCrashAtMinute()
	} else {
		p.planSecond()
	}
	p.planShards()
	return p
}

// insert adds a fault that was not drawn with the others.
func (p *plan) insert(f fault) {
	i := slices.IndexFunc(p.faults, func(later fault) bool { return later.at > f.at })
	if i < 0 {
		i = len(p.faults)
	}
	p.faults = slices.Insert(p.faults, i, f)
}

// planCalm plans an operator's actions, one after the other. The first one waits until a cluster that one node has
// founded has spread its shards: while a restart meets the hand-over to that very node, requests wait for an election.
func (p *plan) planCalm(chance *rand.Rand) {
	for at := 6 * time.Second; at < troubled-10*time.Second; at += 8*time.Second +
		time.Duration(chance.IntN(5000))*time.Millisecond {
		kind := []string{"restart", "restart", "restart", "policies", "drain", "join"}[chance.IntN(6)]
		p.faults = append(p.faults, fault{at: at, kind: kind, whom: chance.IntN(8), long: 4 * time.Second})
	}
}

func drawKind(chance *rand.Rand) string {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := chance.IntN(sum)
	i := slices.IndexFunc(kinds, func(k kind) bool {
		at -= k.weight
		return at < 0
	})
	return kinds[i].name
}
