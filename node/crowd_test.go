package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// crowd spends at all nodes without rest, each request with a deadline of 5 s, and records how much it spent. None of
// its requests may fail, whatever happens to the nodes that it does not ask. Its keys' quotas never run out.
type crowd struct {
	t      *testing.T
	c      *trio
	cancel context.CancelFunc
	group  sync.WaitGroup

	// each worker has a place while it asks a node; a change of the asked nodes takes all of them
	asking  chan struct{}
	entries []*Node // guarded by asking: the nodes to ask

	mu    sync.Mutex
	spent map[string]uint64 // guarded by mu: by key
}

const crowdKeys, crowdWorkers = 8, 3

func newCrowd(t *testing.T, c *trio, entries ...int) *crowd {
	return newCrowdEvery(t, c, time.Millisecond, entries...)
}

// newCrowdEvery is newCrowd for a load with pauses, beside what takes long.
func newCrowdEvery(t *testing.T, c *trio, pause time.Duration, entries ...int) *crowd {
	crowd := &crowd{t: t, c: c, asking: make(chan struct{}, crowdWorkers), spent: map[string]uint64{}}
	for _, i := range entries {
		crowd.include(i)
	}
	var ctx context.Context
	ctx, crowd.cancel = context.WithCancel(t.Context())
	t.Cleanup(func() { crowd.cancel(); crowd.group.Wait() }) // before the nodes are stopped
	for worker := range crowdWorkers {
		crowd.group.Go(func() {
			for i := worker; ctx.Err() == nil; i++ {
				crowd.spend(i)
				time.Sleep(pause)
			}
		})
	}
	return crowd
}

// breathe is called by a load between two requests: the nodes, and other tests, need a processor too.
func breathe() { time.Sleep(time.Millisecond) }

func (w *crowd) spend(i int) {
	w.asking <- struct{}{}
	defer func() { <-w.asking }()
	key, entry := fmt.Sprint("crowd ", i%crowdKeys), w.entries[i%len(w.entries)]
	began := time.Now()
	if r := ask(entry, shard.Check, "plenty", key); r.Err != nil {
		w.t.Errorf("node %s, %q, after %v: %v (code %d)", entry.ID(), key, time.Since(began), r.Err, r.Err.Code)
		return
	}
	w.mu.Lock()
	w.spent[key]++
	w.mu.Unlock()
}

// avoid stops asking a node; when it returns, no request is under way there.
func (w *crowd) avoid(node int) {
	w.change(func() { w.entries = slices.DeleteFunc(w.entries, func(n *Node) bool { return n == w.c.nodes[node] }) })
}

func (w *crowd) include(node int) {
	w.change(func() { w.entries = append(w.entries, w.c.nodes[node]) })
}

// change edits the nodes to ask while none is asked.
func (w *crowd) change(edit func()) {
	for range crowdWorkers {
		w.asking <- struct{}{}
	}
	edit()
	for range crowdWorkers {
		<-w.asking
	}
}

// goesHome ends the load and compares the crowd's sums with the cluster's counts, as one node reports them.
func (w *crowd) goesHome(entry int) {
	w.t.Helper()
	await.Until(w.t, "all keys are spent on", func() bool { return w.spentOnAll() || w.t.Failed() })
	w.cancel()
	w.group.Wait()
	w.recount(entry)
}

func (w *crowd) spentOnAll() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spent) == crowdKeys
}

// recount compares the crowd's sums with the cluster's counts.
func (w *crowd) recount(entry int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spent) != crowdKeys {
		w.t.Errorf("%d keys were spent on, want %d", len(w.spent), crowdKeys)
	}
	for key, spent := range w.spent {
		if used := w.c.used(entry, "plenty", key); used != spent {
			w.t.Errorf("%q: spent %d, counted %d", key, spent, used)
		}
	}
}

// ask asks a node in the way its API does.
func (c *trio) ask(i int, op shard.Op, policy, key string) shard.Result {
	return ask(c.nodes[i], op, policy, key)
}

func ask(n *Node, op shard.Op, policy, key string) shard.Result {
	ctx, cancel := patient(context.Background(), n.config.World, 20*time.Second)
	defer cancel()
	return n.Decide(ctx, []shard.Request{{Op: op, Namespace: shard.DefaultNamespace,
		Entries: []shard.Entry{{Policy: policy, Key: key, Cost: 1}}}})[0]
}

func (c *trio) used(i int, policy, key string) uint64 {
	c.t.Helper()
	r := c.ask(i, shard.Get, policy, key)
	if r.Err != nil {
		c.t.Errorf("node %d, %s %q: %v", i+1, policy, key, r.Err)
		return 0
	}
	return r.Decision.Limits[0].Used
}
