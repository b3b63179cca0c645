package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/sleep"
)

// worker is one client: it has one operation under way at a time, and a preferred node.
type worker struct {
	run    *run
	number int
	random *rand.Rand
	node   int // asked next, modulo the number of nodes; goes up before each retry
	count  int // operations begun: makes ids different
}

// operation spends one unit, in as many attempts as necessary.
type operation struct {
	key   *key
	id    string // may be empty
	since floor
	began time.Time
}

func (r *run) work(ctx context.Context, number int) {
	w := &worker{run: r, number: number, random: rand.New(rand.NewPCG(r.plan.Seed, uint64(number))), node: number}
	for r.rest(r.pace.next(time.Now())) && ctx.Err() == nil {
		w.operate(ctx)
	}
}

// rest reports whether the run goes on after a while.
func (r *run) rest(d time.Duration) bool { return sleep.For(r.load, d) }

// operate spends one unit of one key, and records the outcome.
func (w *worker) operate(ctx context.Context) {
	r := w.run
	k := r.choose(w.random)
	if !r.filled.Load() && k.full() {
		r.replace(ctx, k)
		k = r.choose(w.random)
	}
	o := &operation{key: k, began: time.Now()}
	if w.count++; w.random.IntN(100) < r.plan.IDs {
		o.id = fmt.Sprintf("%x-%d-%d", r.began.UnixMicro(), w.number, w.count)
	}
	home := k.where()
	home.ask(o.began)
	o.since = k.begin()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.plan.Deadline)
	a := w.attempts(deadline, o)
	cancel()
	switch a.fate {
	case admitted, denied:
		now := time.Now()
		if a.fate == admitted || !k.repeatable(o.id != "") { // otherwise its shard may not have been asked
			home.answered(o.began, now)
		}
		r.latencies[w.number] = append(r.latencies[w.number], now.Sub(o.began).Microseconds())
	default:
		r.counts.missed.Add(1)
	}
	r.conclude(o, a)
}

// attempts asks one node after another until there is a decision, or the deadline leaves no time. The answer is unknown
// if no attempt was decided and any may have counted.
func (w *worker) attempts(ctx context.Context, o *operation) answer {
	maybe := false
	for tries := 0; ; tries++ {
		a := w.run.caller.check(ctx, w.node%len(w.run.plan.Addresses), o.key, o.id, stintv1.Mode_MODE_UNSPECIFIED)
		if a.fate == admitted || a.fate == denied || a.fate == wrong {
			return a
		}
		w.run.book.code(a)
		maybe = maybe || a.fate == unknown
		if maybe && o.id == "" {
			a.fate = unknown
			return a
		}
		w.node++
		w.run.counts.retries.Add(1)
		if !sleep.For(ctx, min(time.Duration(1+tries)*2*time.Millisecond, 50*time.Millisecond)) {
			if maybe {
				a.fate = unknown
			}
			return a
		}
	}
}

// conclude records the outcome of an operation.
func (r *run) conclude(o *operation, a answer) {
	switch a.fate {
	case admitted:
		r.counts.admitted.Add(1)
		r.book.find(o.key.admit(a, o.since, o.id != ""))
		if o.id != "" {
			r.book.remember(o, a)
		}
	case denied:
		r.counts.denied.Add(1)
		r.book.find(o.key.deny(a, o.since, o.id != ""))
	case refused:
		o.key.leave()
	case unknown:
		o.key.wonder(1)
		if o.id != "" {
			r.book.leaveOpen(o)
		}
	case wrong:
		o.key.wonder(1)
		r.book.find(finding(wrongAnswer, "%v: %s %s", o.key, a.code, a.message))
	}
}
