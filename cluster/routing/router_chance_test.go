package routing

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// tally counts the answers that callers got for one key.
type tally struct{ allowed, denied, definite, unknown int }

// trouble makes a town unreliable. All random choices come from one seed, but goroutines draw in any order.
type trouble struct {
	*town
	mu  sync.Mutex
	rnd *rand.Rand
}

func (d *trouble) draw(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

// before may delay a request, perhaps beyond its caller's deadline, or refuse or lose it.
func (d *trouble) before(string, *shard.Request) *shard.Error {
	switch d.draw(20) {
	case 0:
		return failure([]shard.Code{shard.NotOwner, shard.Draining, shard.Unavailable, shard.Overloaded}[d.draw(4)])
	case 1:
		return failure(shard.UnknownOutcome)
	case 2:
		time.Sleep(time.Duration(d.draw(3000)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(d.draw(3)) * time.Millisecond)
	}
	return nil
}

// after may delay or lose an answer.
func (d *trouble) after(string, *shard.Request) *shard.Error {
	switch d.draw(20) {
	case 0:
		return failure(shard.UnknownOutcome)
	case 1:
		time.Sleep(time.Duration(d.draw(3000)) * time.Millisecond)
	}
	return nil
}

// nemesis moves the owner, spreads right and wrong news of it, and makes the shard forget sessions.
func (d *trouble) nemesis(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+d.draw(200)) * time.Millisecond):
		}
		name := func() string { return fmt.Sprintf("n%d", 1+d.draw(len(d.nodes))) }
		switch d.draw(10) {
		case 0:
			d.move("")
		case 1:
			d.forget()
		case 2:
			d.leads(name(), name())
		case 3:
			d.move(name())
		case 4, 5:
			d.move(name(), name())
		default:
			d.move(name(), "n1", "n2", "n3")
		}
	}
}

func (d *trouble) caller(i int, heard *[4]tally) {
	for round := range 40 {
		requests := make([]shard.Request, 1+d.draw(3))
		keys := make([]int, len(requests))
		for j := range requests {
			keys[j] = d.draw(len(heard))
			requests[j] = check(fmt.Sprint("k", keys[j]))
			if d.draw(3) == 0 {
				requests[j].ID = fmt.Sprint(i, " ", round, " ", j)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+d.draw(2000))*time.Millisecond)
		results := d.nodes[fmt.Sprintf("n%d", 1+i%len(d.nodes))].Decide(ctx, requests)
		cancel()
		d.mu.Lock()
		for j, result := range results {
			h := &heard[keys[j]]
			switch err := result.Err; {
			case err != nil && err.MaybeApplied():
				h.unknown++
			case err != nil:
				h.definite++
			case result.Decision.Allowed:
				h.allowed++
			default:
				h.denied++
			}
		}
		d.mu.Unlock()
	}
}

var (
	seedFlag   = flag.Uint64("seed", 1, "the first seed of the random worlds; 0 draws it")
	worldsFlag = flag.Int("worlds", 0, "random worlds of a test; 0: enough to meet what is rare, with -short a few")
)

// enoughWorlds meet what is rare. With fewer a test only holds that nothing goes wrong.
const enoughWorlds = 20

func worldsToPlay() int {
	switch {
	case *worldsFlag > 0:
		return *worldsFlag
	case testing.Short():
		return 4
	}
	return enoughWorlds
}

// firstSeed returns the seed of a test's first world; the others follow it.
func firstSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with: go test ./cluster/routing -run '^%s$' -seed=%d -worlds=%d", t.Name(), seed, worldsToPlay())
	return seed
}

// Whatever fails: requests reported as counted were counted, requests reported as not counted were not, and none counts
// twice.
func TestWhateverFailsTheCallersHearTheTruth(t *testing.T) {
	first, worlds := firstSeed(t), worldsToPlay()
	var all tally
	for seed := first; seed < first+uint64(worlds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			d := &trouble{town: newTown(t, 3), rnd: rand.New(rand.NewPCG(seed, 0))}
			d.town.before, d.town.after = d.before, d.after
			d.plain = seed%4 == 0
			d.allow(30)
			d.town.move("n1", "n1", "n2", "n3")
			var heard [4]tally
			var callers, nemesis sync.WaitGroup
			stop := make(chan struct{})
			nemesis.Go(func() { d.nemesis(stop) })
			for i := range 9 {
				callers.Go(func() { d.caller(i, &heard) })
			}
			callers.Wait()
			close(stop)
			nemesis.Wait()
			d.allow(1 << 30) // a denied request must not be admitted even now
			d.late.Wait()
			for key, h := range heard {
				n := d.counted(fmt.Sprint("k", key))
				if n < h.allowed || n > h.allowed+h.unknown {
					t.Errorf("seed %d: key %d was counted %d times; its callers heard %+v", seed, key, n, h)
				}
				all.allowed, all.denied = all.allowed+h.allowed, all.denied+h.denied
				all.definite, all.unknown = all.definite+h.definite, all.unknown+h.unknown
			}
		})
	}
	t.Logf("%d worlds from seed %d: %+v", worlds, first, all)
	if worlds >= enoughWorlds && (all.allowed == 0 || all.denied == 0 || all.definite == 0 || all.unknown == 0) {
		t.Errorf("something never happened: %+v", all)
	}
}
