package actor

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "simulate the world of this seed only, and tell its story")
	worldsFlag = flag.Uint64("worlds", 0, "how many worlds are simulated; 0: "+
		"enough to meet everything, with -short a few")
)

// enoughWorlds meet everything.
const enoughWorlds = 150

func worldsToPlay() uint64 {
	switch {
	case *worldsFlag > 0:
		return *worldsFlag
	case testing.Short():
		return 10
	}
	return enoughWorlds
}

// TestSimulation builds worlds from seeds. Each world is a shard with one to three replicas; a log that delays,
// refuses, loses and repeats entries; clocks that cannot be trusted; processes that crash between any two steps; and
// clients that retry. Every decision and answer is judged (check.History, judge_test.go). Then the world heals, and the
// final state must match the answers that the clients got.
//
// A failure names its seed. `go test ./actor -run TestSimulation -seed N` plays that world again, step for step.
func TestSimulation(t *testing.T) {
	if *seedFlag != 0 {
		if story, err := tell(*seedFlag); err != nil {
			t.Fatalf("%v\n%s", err, story)
		}
		return
	}
	var sum tally
	var guard sync.Mutex
	var next atomic.Uint64
	t.Run("worlds", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(core), func(t *testing.T) {
				t.Parallel()
				mine := simulate(t, &next)
				guard.Lock()
				defer guard.Unlock()
				sum.add(mine)
			})
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d worlds, %d operations\n%s", sum.worlds, sum.operations, sum.faults())
	if worldsToPlay() >= enoughWorlds {
		sum.mustHaveSeenEverything(t)
	}
}

// simulate plays worlds until there are enough, or one fails.
func simulate(t *testing.T, next *atomic.Uint64) (sum tally) {
	for !t.Failed() {
		seed := next.Add(1)
		if seed > worldsToPlay() {
			break
		}
		w := newWorld(seed, nil)
		if err := w.play(); err != nil {
			story, _ := tell(seed)
			t.Fatalf("the world of seed %d: %v\n%s", seed, err, story)
		}
		sum.add(w.tally)
	}
	return sum
}

// tell plays a world again and returns its story: the end of its schedule, and all events on the keys of the request
// that went wrong.
func tell(seed uint64) (string, error) {
	s := &story{}
	w := newWorld(seed, s)
	err := w.play()
	return s.text(w.suspects), err
}

// story is the schedule of a world, one line for each step.
type story struct{ lines []string }

// scheduleTail is how many of the last lines of a schedule are shown.
const scheduleTail = 60

func (s *story) text(suspects []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- the last steps\n")
	tail := max(0, len(s.lines)-scheduleTail)
	for _, line := range s.lines[tail:] {
		fmt.Fprintln(&b, line)
	}
	for _, key := range suspects {
		fmt.Fprintf(&b, "--- the history of %s\n", key)
		for _, line := range s.lines {
			if strings.Contains(line, key) {
				fmt.Fprintln(&b, line)
			}
		}
	}
	return b.String()
}

// tally counts events, to show that none was left out.
type tally struct {
	worlds, operations int
	happened           map[string]int
}

func (t *tally) note(what string) {
	if t.happened == nil {
		t.happened = make(map[string]int)
	}
	t.happened[what]++
}

func (t *tally) add(other tally) {
	t.worlds += other.worlds
	t.operations += other.operations
	for what, n := range other.happened {
		if t.happened == nil {
			t.happened = make(map[string]int)
		}
		t.happened[what] += n
	}
}

// everything is the list of events that the worlds of a run must have met, so that a harness that misses them does not
// make the shard look sound.
var everything = []string{
	"admitted", "denied", "replayed", "id reused", "unknown", "not applied", "unknown resolved", "deadline passed",
	"crash with nothing proposed", "crash after propose", "crash after commit before answer",
	"restart from snapshot", "restart from an empty disk", "moved", "foreign epoch while open", "waited for callers",
	"lost as unknown", "logged as unknown", "refused by the leader", "refused by a follower", "unavailable",
	"late entry of an old epoch, next in line, same term", "late entry of the open epoch", "late epoch open",
	"written under the next term by a deposed owner",
	"dropped: epoch", "dropped: term", "dropped: seq", "sum logged", "judged by porcupine",
	"reference stepped back", "machine stood still", "no reference", "shard time stood still", "shard time fell behind",
	"policies adopted", "an owner that knew older policies", "no epoch without policies",
	"reserved", "settled", "settled again", "settled too late, or in another way before", "blocked",
	"handover begun with entries under way", "handed over", "a transfer that failed", "a handover out of patience",
	"fired", "acknowledged",
}

func (t *tally) faults() string {
	var b strings.Builder
	for _, what := range everything {
		fmt.Fprintf(&b, "  %7d  %s\n", t.happened[what], what)
	}
	return b.String()
}

func (t *tally) mustHaveSeenEverything(test *testing.T) {
	for _, what := range everything {
		if t.happened[what] == 0 {
			test.Errorf("no world met this: %s", what)
		}
	}
}

// A seed names exactly one world.
func TestSimulationIsReproducible(t *testing.T) {
	first, err := tell(6)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := tell(6); first != again {
		t.Fatalf("the world of seed 6 had two stories:\n%s\n%s", first, again)
	}
}
