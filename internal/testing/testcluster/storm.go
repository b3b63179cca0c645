package testcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// Fault is a kind of fault.
type Fault = string

// The faults of a Storm.
const (
	FaultKill    Fault = "kill"     // SIGKILL, and a restart a moment later
	FaultKillAll Fault = "kill-all" // the same for all nodes together
	FaultPause   Fault = "pause"    // SIGSTOP for 0.2 to 8 s
	FaultCut     Fault = "cut"      // one node against the others, one way only, or in a ring
	FaultRestart Fault = "restart"  // SIGTERM, exit 0, restart
	FaultDisk    Fault = "disk"     // it fails, is full or is slow: needs strace
	FaultClock   Fault = "clock"    // the wall clock jumps: needs a binary with the tag chaos
)

// Storm describes the faults to make, and how often.
type Storm struct {
	Faults  []Fault
	Count   int           // ends after so many; 0: when its context ends
	AtOnce  int           // faults that may overlap; with 0 or 1, each begins when the nodes are ready again
	Rest    time.Duration // between two faults, on average
	Longest time.Duration // of one fault; 0 means 8 s
	Seed    uint64
	Tell    func(what string) // called when a fault begins; may be nil
	// Sound reports whether every copy of the data can be trusted. A disk fails only then, and only one at a time: a
	// node with a failed disk does not vote until it has new copies, and a second one would take away the majority.
	// With nil, disks are slow, but none fails.
	Sound func(ctx context.Context) bool
}

// afterFailure is the longest time until the failure of a disk shows in the result of Sound.
const afterFailure = 5 * time.Second

// recovery is how long the nodes may take to be ready again after a fault that was alone has ended.
const recovery = 2 * time.Minute

// weather is a Storm under way.
type weather struct {
	storm   Storm
	cluster *Cluster
	random  *rand.Rand // of the scheduler alone: each fault draws from its own, so that their order changes nothing

	mu     sync.Mutex
	hit    map[int]bool // nodes that are under a fault
	count  map[Fault]int
	errors []error
	fails  time.Time // when the newest failure of a disk ended; in the future while it lasts
}

// Storm makes faults until it has made enough or ctx ends, then ends those that remain and starts the nodes that do not
// run. It returns the number of faults of each kind. An error means that a node did something that no fault explains:
// it ended by itself, did not stop in order, or did not come back.
func (c *Cluster) Storm(ctx context.Context, s Storm) (map[Fault]int, error) {
	s.AtOnce = max(s.AtOnce, 1)
	if s.Longest == 0 {
		s.Longest = 8 * time.Second
	}
	if len(s.Faults) == 0 {
		<-ctx.Done()
		return nil, nil
	}
	w := &weather{storm: s, cluster: c, random: rand.New(rand.NewPCG(s.Seed, 77)), hit: map[int]bool{},
		count: map[Fault]int{}}
	w.blow(ctx)
	c.links.Heal()
	w.revive()
	return w.count, errors.Join(w.errors...)
}

func (w *weather) blow(ctx context.Context) {
	slots := make(chan struct{}, w.storm.AtOnce)
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 0; w.storm.Count == 0 || n < w.storm.Count; n++ {
		if !sleep.For(ctx, time.Duration(w.random.Int64N(int64(2*w.storm.Rest)+1))) {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		seed := w.random.Uint64()
		wg.Go(func() {
			defer func() { <-slots }()
			w.strike(ctx, rand.New(rand.NewPCG(seed, 78)))
		})
	}
}

// strike makes one fault, from its beginning to its end.
func (w *weather) strike(ctx context.Context, random *rand.Rand) {
	fault := w.storm.Faults[random.IntN(len(w.storm.Faults))]
	nodes := w.claim(random, fault == FaultKillAll)
	if len(nodes) == 0 {
		return
	}
	defer w.release(nodes)
	if surprises := w.cluster.Surprises(); len(surprises) > 0 {
		w.fail(errors.New(strings.Join(surprises, "; ")))
		w.revive() // so that the storm can continue
		return
	}
	w.mu.Lock()
	w.count[fault]++
	w.mu.Unlock()
	w.fail(w.apply(ctx, fault, nodes, random))
	if w.storm.AtOnce > 1 {
		return
	}
	ready, cancel := context.WithTimeout(context.WithoutCancel(ctx), recovery)
	defer cancel()
	if err := w.cluster.AwaitReady(ready); err != nil {
		w.fail(fmt.Errorf("%v after fault %q of %s ended: %w", recovery, fault, w.cluster.Name(nodes[0]), err))
	}
}

// revive starts the nodes that do not run.
func (w *weather) revive() {
	for i := range w.cluster.Len() {
		if !w.cluster.Running(i) {
			w.fail(w.cluster.Restart(i))
		}
	}
}

// apply makes a fault of the claimed nodes: several, if it is one of all.
func (w *weather) apply(ctx context.Context, fault Fault, nodes []int, random *rand.Rand) error {
	i := nodes[0]
	switch fault {
	case FaultKill, FaultKillAll:
		return w.kill(ctx, nodes, random)
	case FaultPause:
		return w.pause(ctx, i, random)
	case FaultCut:
		w.cut(ctx, i, random)
		return nil
	case FaultRestart:
		return w.restart(ctx, i)
	case FaultDisk:
		return w.disk(ctx, i, random)
	case FaultClock:
		return w.clock(ctx, i, random)
	}
	return fmt.Errorf("testcluster: there is no fault %q", fault)
}

func (w *weather) kill(ctx context.Context, nodes []int, random *rand.Rand) (err error) {
	var names []string
	for _, i := range nodes {
		names = append(names, w.cluster.Name(i))
	}
	w.tell("kill -9 %s", strings.Join(names, ", "))
	for _, i := range nodes {
		err = errors.Join(err, w.cluster.Kill(i))
	}
	sleep.For(ctx, w.between(random, 0, 2*time.Second))
	for _, i := range nodes {
		err = errors.Join(err, w.cluster.Restart(i))
	}
	return err
}

func (w *weather) pause(ctx context.Context, i int, random *rand.Rand) error {
	hold := w.between(random, 200*time.Millisecond, w.storm.Longest)
	w.tell("pause %s for %v", w.cluster.Name(i), hold)
	if err := w.cluster.Pause(i); err != nil {
		return err
	}
	sleep.For(ctx, hold)
	return w.cluster.Resume(i)
}

// cut cuts links of node i, or all links in one direction of a ring, and mends exactly those.
func (w *weather) cut(ctx context.Context, i int, random *rand.Rand) {
	n := w.cluster.Len()
	other := (i + 1 + random.IntN(max(n-1, 1))) % n
	var pairs [][2]int
	var what string
	switch random.IntN(3) {
	case 0:
		what = fmt.Sprintf("cut %s off", w.cluster.Name(i))
		for _, k := range numbers(stranger, n) {
			pairs = append(pairs, [2]int{i, k}, [2]int{k, i})
		}
	case 1:
		what = fmt.Sprintf("cut %s to %s", w.cluster.Name(i), w.cluster.Name(other))
		pairs = [][2]int{{i, other}}
	default:
		what = "cut a ring, each node to the next"
		for k := range n {
			pairs = append(pairs, [2]int{k, (k + 1) % n})
		}
	}
	hold := w.between(random, 500*time.Millisecond, w.storm.Longest)
	w.tell("%s for %v", what, hold)
	for _, p := range pairs {
		w.cluster.links.Cut(p[0], p[1])
	}
	sleep.For(ctx, hold)
	for _, p := range pairs {
		w.cluster.links.Mend(p[0], p[1])
	}
}

// stopPatience is how long a node may take to stop in order: it drains for at most 10 s.
const stopPatience = 20 * time.Second

func (w *weather) restart(ctx context.Context, i int) error {
	w.tell("restart %s", w.cluster.Name(i))
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	err := w.cluster.Terminate(patience, i)
	if err != nil && w.storm.AtOnce > 1 {
		err = nil // under other faults it may find no node to hand over to
	}
	if w.cluster.Running(i) {
		err = errors.Join(err, w.cluster.Kill(i))
	}
	return errors.Join(err, w.cluster.Restart(i))
}

// disk restarts a node on a disk that fails or is slow. A failing disk must end the process with status 75.
func (w *weather) disk(ctx context.Context, i int, random *rand.Rand) error {
	fails := random.IntN(2) == 0 && w.mayFail(ctx)
	inject := fmt.Sprintf("delay_enter=%d:when=%d+3", 50_000+random.IntN(700_000), 5+random.IntN(20))
	if fails {
		defer w.failed()
		inject = fmt.Sprintf("error=%s:when=%d+", []string{"EIO", "ENOSPC"}[random.IntN(2)], 5+random.IntN(60))
	}
	w.tell("disk of %s: %s", w.cluster.Name(i), inject)
	if err := w.cluster.Kill(i); err != nil {
		return err
	}
	if err := w.cluster.RestartFailing(i, inject); err != nil {
		return err
	}
	hold, cancel := context.WithTimeout(ctx, w.between(random, time.Second, w.storm.Longest))
	defer cancel()
	code, err := w.cluster.AwaitExit(hold, i)
	if err != nil { // it still runs: the fault was not reached, or the disk was only slow
		return errors.Join(w.cluster.Kill(i), w.cluster.Restart(i))
	}
	err = nil
	if code != ExitUntrusted {
		err = fmt.Errorf("%s ended with %d on a failing disk, want %d", w.cluster.Name(i), code, ExitUntrusted)
	}
	return errors.Join(err, w.cluster.Restart(i))
}

// mayFail reports whether a disk may fail now, and claims that for the caller, which must call failed when the fault is
// over.
func (w *weather) mayFail(ctx context.Context) bool {
	w.mu.Lock()
	free := time.Since(w.fails) > afterFailure
	if free {
		w.fails = time.Now().Add(time.Hour)
	}
	w.mu.Unlock()
	if !free {
		return false
	}
	if w.storm.Sound == nil || !w.storm.Sound(ctx) {
		w.failed()
		return false
	}
	return true
}

func (w *weather) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = time.Now()
}

// clock makes a node's clock jump forward or back, and then correct again.
func (w *weather) clock(ctx context.Context, i int, random *rand.Rand) error {
	jumps := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 8 * time.Second}
	by := jumps[random.IntN(len(jumps))]
	if random.IntN(2) == 0 {
		by = -by
	}
	w.tell("clock of %s by %v", w.cluster.Name(i), by)
	if err := w.cluster.SetClock(i, by); err != nil {
		return err
	}
	sleep.For(ctx, w.between(random, time.Second, w.storm.Longest))
	return w.cluster.SetClock(i, 0)
}

func (w *weather) between(random *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(random.Int64N(int64(max(most-least, 1))))).Round(time.Millisecond)
}

// claim picks a node that is under no other fault, or takes all nodes if none is.
func (w *weather) claim(random *rand.Rand, all bool) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := slices.DeleteFunc(numbers(0, w.cluster.Len()), func(i int) bool { return w.hit[i] })
	switch {
	case len(free) == 0, all && len(free) < w.cluster.Len():
		return nil
	case !all:
		one := random.IntN(len(free))
		free = free[one : one+1]
	}
	for _, i := range free {
		w.hit[i] = true
	}
	return free
}

func (w *weather) release(nodes []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range nodes {
		delete(w.hit, i)
	}
}

// fail notes an error; nil is none.
func (w *weather) fail(err error) {
	if err != nil {
		w.mu.Lock()
		w.errors = append(w.errors, err)
		w.mu.Unlock()
	}
}

func (w *weather) tell(format string, args ...any) {
	if w.storm.Tell != nil {
		w.storm.Tell(fmt.Sprintf(format, args...))
	}
}
