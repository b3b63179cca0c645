package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// run is one run under way.
type run struct {
	plan   Plan
	prefix string // of the keys
	caller *caller
	began  time.Time
	ended  time.Time // of the load
	pace   *pacer
	load   context.Context // ends: workers end
	filled atomic.Bool     // the faults are over: keys are only filled up, at full speed, and not replaced
	counts counts
	book   book
	shards *shards

	mu        sync.Mutex        // guards keys, active, spare and drawn
	keys      []*key            // all that are or were active
	active    []*key            // contended for now
	spare     map[uint32][]*key // by shard: never used yet
	drawn     int               // names drawn so far
	latencies [][]int64         // by worker, which alone writes there: microseconds of each answered operation
	lessees   []*lessees        // written and read by Run alone
}

// counts are operations by outcome. Retries alone are attempts: those after the first of each operation.
type counts struct {
	admitted, denied, missed, retries, resolved atomic.Uint64
}

// Progress is the progress of a run.
type Progress struct {
	Elapsed          time.Duration
	Admitted, Denied uint64
	Worst            time.Duration // the longest outage of a shard so far, one that lasts included
	Findings         int           // so far; above 0: not exact
}

// Run keeps the load up while during runs, then lets everything settle, and judges. The error is that of during, or the
// reason why no run took place. The Result reports the nodes' errors; it is nil only if no run took place.
func Run(ctx context.Context, p Plan, during func(context.Context) error) (*Result, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	running, done := context.WithCancel(context.Background())
	defer done()
	load, unload := context.WithCancel(running)
	defer unload()
	r := &run{plan: p, caller: newCaller(p), began: time.Now(), pace: &pacer{rate: p.Rate}, load: load,
		book:   book{random: rand.New(rand.NewPCG(p.Seed, 2_000_000))},
		shards: newShards(p.memory(), p.Outage), spare: map[uint32][]*key{}, latencies: make([][]int64, p.Workers)}
	r.prefix = fmt.Sprintf("verify-%x-%x/", p.Seed&0xffff, r.began.UnixMicro())
	defer r.caller.close()
	if err := r.chooseKeys(ctx); err != nil {
		return nil, err
	}
	var workers, telling sync.WaitGroup
	for i := range p.Workers {
		workers.Go(func() { r.work(ctx, i) })
	}
	for i, lease := range r.plan.Leases {
		l := r.newLessees(lease)
		r.lessees = append(r.lessees, l)
		for j := range lesseesEach {
			workers.Go(func() { l.work(i*lesseesEach + j) })
		}
	}
	telling.Go(func() { r.tell(running) })
	loaded := time.Now()
	failure := during(ctx)
	lasted := time.Since(loaded)
	r.fillUp(ctx)
	unload()
	workers.Wait()
	r.ended = time.Now()
	settled := context.WithoutCancel(ctx) // Ctrl-C ends the load; its result is still needed
	r.settle(settled)
	for _, l := range r.lessees {
		l.settle(settled)
	}
	done()
	telling.Wait()
	return r.result(lasted), failure
}

// tellEvery is how often a run reports its progress.
const tellEvery = 250 * time.Millisecond

func (r *run) tell(running context.Context) {
	for sleep.For(running, tellEvery) {
		if r.plan.Progress != nil {
			r.plan.Progress(r.progress())
		}
	}
}

func (r *run) progress() Progress {
	c := &r.counts
	p := Progress{Elapsed: time.Since(r.began), Admitted: c.admitted.Load(), Denied: c.denied.Load(),
		Findings: r.book.total()}
	for _, s := range r.shards.all() {
		p.Worst = max(p.Worst, s.away(time.Now()))
	}
	return p
}
