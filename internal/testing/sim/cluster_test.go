package sim

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/shard"
)

var (
	seedFlag   = flag.Uint64("sim.seed", 0, "play the world of this seed only, and tell its story")
	worldsFlag = flag.Int("sim.worlds", 0, "how many worlds are played; 0: a few")
	firstFlag  = flag.Uint64("sim.first", 1, "the seed of the first world")
	movesFlag  = flag.Bool("sim.moves", false, "slots move in every world, not in one of three")
)

// tally counts events, to show that nothing was left out.
type tally struct {
	mu       sync.Mutex
	happened map[string]int
}

func (t *tally) note(what string) { t.add(what, 1) }

func (t *tally) add(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.happened == nil {
		t.happened = make(map[string]int)
	}
	t.happened[what] += n
}

func (t *tally) most(what string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.happened == nil {
		t.happened = make(map[string]int)
	}
	t.happened[what] = max(t.happened[what], n)
}

func (t *tally) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.happened)) {
		fmt.Fprintf(&b, "%8d %s\n", t.happened[what], what)
	}
	return b.String()
}

// TestClusters builds worlds from seeds: clusters of real nodes in virtual time, on a network, disks and clocks that
// fail as the seed says, with clients that send requests throughout. The test judges the clients' answers; then the
// world heals, and the cluster must recover.
//
// A failure names its seed: `go test ./internal/testing/sim -run TestClusters -sim.seed N` applies the same faults to a
// world at the same times. The run may differ: the order of goroutines has no seed.
func TestClusters(t *testing.T) {
	if *seedFlag != 0 {
		var sum tally
		if err := playWorld(t, *seedFlag, &sum, slog.LevelDebug); err != nil {
			t.Error(err)
		}
		t.Logf("what happened:\n%v", &sum)
		return
	}
	seeds := seedsToPlay()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a world is short, and leaves little garbage
	started := time.Now()
	var sum tally
	var next atomic.Int64
	var failed []string // what was wrong in each world that failed, in short
	var mu sync.Mutex   // guards failed
	t.Run("worlds", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(core), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					done := int(next.Add(1)) - 1
					if done >= len(seeds) {
						return
					}
					if done > 0 && done%100 == 0 {
						fmt.Printf("%d of %d worlds in %v\n", done, len(seeds), time.Since(started).Round(time.Second))
					}
					if err := playWorld(t, seeds[done], &sum, slog.LevelInfo); err != nil {
						t.Error(err)
						mu.Lock()
						failed = append(failed,
							fmt.Sprintf("%s\nagain: go test ./internal/testing/sim -run TestClusters -sim.seed %d "+
								"-sim.moves=%v -v", inShort(err), seeds[done], *movesFlag))
						mu.Unlock()
					}
				}
			})
		}
	})
	t.Logf("%d worlds in %v\n%v", sum.happened["worlds"], time.Since(started).Round(time.Second), &sum)
	for _, f := range failed { // once more, behind the stories: the end of a long output is what people read
		t.Error(f)
	}
	if len(seeds) >= manyWorlds && !t.Failed() {
		sum.mustHaveSeenEverything(t)
	}
}

// manyWorlds is a number of worlds in which even the rarest fate occurs a dozen times. Fewer worlds need not meet it:
// no test fails because chance left something out.
const manyWorlds = 300

// inShort is what was wrong in a world, without its plan and its story.
func inShort(err error) string {
	const most = 2_000
	text, _, _ := strings.Cut(err.Error(), "\n--- its plan")
	return text[:min(len(text), most)]
}

// mustHaveSeenEverything checks that the worlds covered everything: every fault, and every fate.
func (t *tally) mustHaveSeenEverything(to *testing.T) {
	all := []string{"operations: allowed", "operations: denied", "operations: refused", "operations: unknown",
		"operations: answered when asked again with their id", "a node stopped itself", "comparisons of replicas",
		"operations: reserved", "operations: settled",
		"operations: settled by another before", "spent: from a lease", "spent: admitted by the owner", "spent: denied",
		crashAtMinute, "bills: final periods", secondProcess, secondByCopy, secondOfAHalt,
		"a second process ended by itself", changeShards, "slots came to rest"}
	for _, what := range []string{"check over shards", "reserve over shards", "settle over shards",
		"extend over shards", "extend without an id over shards", "above over shards", "above, rejected",
		"check, denied", "settle, ended before", "check", "reserve", "settle", "extend", "tally", "add", "correct",
		"rule", "ruled", "turned", "turned, denied", "damped",
		"damped, a denial repeated", "extend over shards, a late copy", "kin", "kin over shards", "private over shards",
		"forget", "capped", "capped, refused", "answered when asked again"} {
		all = append(all, "errands: "+what)
	}
	for line := range told {
		all = append(all, line)
	}
	for _, k := range kinds {
		if k.weight > 2 {
			all = append(all, k.name)
		}
	}
	for _, what := range all {
		if t.happened[what] == 0 {
			to.Errorf("no world met this: %s", what)
		}
	}
}

// kept are the seeds of worlds that once failed. A world that fails in a run of many becomes one of them.
var kept = []uint64{
	452,  // the judge took the wait of a client with an ended load for one that was too long
	7042, // a disk failed while the first process of a node, after the loss of its second one, was to be rebuilt
}

// seedsToPlay are those of the flags, or else the kept ones and a few more.
func seedsToPlay() (seeds []uint64) {
	worlds := *worldsFlag
	if worlds == 0 {
		worlds = 2 // make sim plays more, in both rings
		seeds = slices.Clone(kept)
	}
	for i := range uint64(worlds) {
		seeds = append(seeds, *firstFlag+i)
	}
	return seeds
}

// playWorld plays the world of a seed; the error contains its story.
func playWorld(t *testing.T, seed uint64, sum *tally, level slog.Level) error {
	dir, err := os.MkdirTemp(testcluster.InMemory(), "stint-sim-") // for the policies file; everything else is on memfs
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := newPlan(seed)
	var w *world
	started := time.Now()
	bubble.Run(t, func(*testing.T) {
		if w, err = newWorld(p, dir, sum, level); err == nil {
			w.play()
		}
	})
	if err != nil {
		return err
	}
	var ops []*op
	for _, c := range w.clients {
		ops = append(ops, c.ops...)
	}
	var errands []*errand
	for _, r := range w.runners {
		errands = append(errands, r.done...)
	}
	wrong := append(w.errs, judge(ops)...)
	wrong = append(wrong, judgeErrands(errands, w.growth.rests)...)
	if w.spender != nil {
		over, jumps := w.spender.judge()
		wrong = append(wrong, over...)
		sum.countSpent(w.spender.all, jumps)
	}
	if p.calm {
		sum.note("calm worlds")
		wrong = append(wrong, judgeCalm(ops)...)
	}
	sum.count(w, ops)
	sum.countErrands(w, errands)
	if len(wrong) == 0 {
		return nil
	}
	var b strings.Builder
	for _, f := range p.faults {
		fmt.Fprintln(&b, f)
	}
	return fmt.Errorf("the world of seed %d, after %v:\n%w\n--- its plan: "+
		"%d nodes, %d founders, %d shards, %d replicas, replaced after %v\n%s--- its story\n%s",
		seed, time.Since(started).Round(time.Millisecond), errors.Join(wrong...), p.nodes, p.founders, p.shards,
		p.replicas, p.replaceAfter, &b, w.story.text())
}

func (t *tally) count(w *world, ops []*op) {
	t.note("worlds")
	t.add("virtual seconds", int(w.lasted.Seconds()))
	t.add("comparisons of replicas", w.sums.n)
	t.most("most milliseconds until all shards answered again", int(w.quiet.Milliseconds()))
	t.most("most milliseconds until the table was settled", int(w.settled.Milliseconds()))
	t.most("most milliseconds until the slots were even", int(w.even.Milliseconds()))
	if w.plan.moves() {
		t.note("worlds with moves of slots")
	}
	for _, o := range ops {
		t.note("operations")
		switch {
		case o.fate == unknown:
			t.note("operations: unknown")
		case o.fate == refused:
			t.note("operations: refused")
		case o.fate == ended:
			t.note("operations: settled by another before")
		case o.decision.Allowed:
			t.note("operations: allowed")
		default:
			t.note("operations: denied")
		}
		if o.fate == answered && o.kind == shard.Settle {
			t.note("operations: settled")
		}
		if o.fate == answered && o.kind == shard.Reserve && o.decision.Allowed {
			t.note("operations: reserved")
		}
		if o.fate == answered && o.asked > 1 {
			t.note("operations: answered when asked again with their id")
		}
	}
}

func (t *tally) countErrands(w *world, errands []*errand) {
	t.most("most milliseconds until what came to nothing was given back", int(w.gone.Milliseconds()))
	for _, e := range errands {
		what := "errands: " + e.kind
		if e.kind == "extend" && !e.sure() {
			what += " without an id"
		}
		switch {
		case e.fate == ended:
			what += ", ended before"
		case e.fate != answered && e.err != nil && e.err.Code == shard.OverQuota:
			what += ", rejected"
		case e.fate != answered:
			what += ", refused"
		case e.decision.Age > 0:
			what += ", a denial repeated"
		case !e.decision.Allowed:
			what += ", denied"
		case e.decision.Operation != nil:
			what += " over shards"
		}
		t.note(what)
		if e.fate == answered && e.asked > 1 {
			t.note("errands: answered when asked again")
		}
	}
}
