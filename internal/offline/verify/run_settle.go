package verify

import (
	"context"
	"fmt"
	"sync"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/sleep"
)

// idsForgotten is the age from which an id may have been forgotten: the servers keep ids for 10 minutes.
const idsForgotten = 9 * time.Minute

// settle resolves everything that is still open: the outcomes of the open operations, whether ids get the same answer
// as before, and the final counts.
func (r *run) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Settle)
	defer cancel()
	r.inParallel(len(r.book.open), func(i int) { r.resolve(ctx, r.book.open[i]) })
	r.inParallel(len(r.book.replays), func(i int) { r.replay(ctx, r.book.replays[i]) })
	r.inParallel(len(r.keys), func(i int) { r.audit(ctx, r.keys[i]) })
	for _, s := range r.shards.all() {
		r.book.find(s.ordered())
	}
}

func (r *run) inParallel(n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range r.plan.Workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// persist asks one node after another, from a first one on, until one decides, or ctx ends.
func (r *run) persist(ctx context.Context, node int, k *key, id string, mode stintv1.Mode) answer {
	for ; ; node++ {
		attempt, cancel := context.WithTimeout(ctx, r.plan.Deadline)
		a := r.caller.check(attempt, node%len(r.plan.Addresses), k, id, mode)
		cancel()
		if a.fate != refused && a.fate != unknown || !sleep.For(ctx, 10*time.Millisecond) {
			return a
		}
	}
}

// resolve asks for an open operation by its id. After any answer, the operation was counted at most once.
func (r *run) resolve(ctx context.Context, o *operation) {
	if time.Since(o.began) > idsForgotten {
		return
	}
	a := r.persist(ctx, 0, o.key, o.id, stintv1.Mode_MODE_UNSPECIFIED)
	if a.fate != admitted && a.fate != denied {
		r.book.find(finding(unsettled, "%v: operation %s was not answered after the faults: %s %s", o.key, o.id, a.code,
			a.message))
		return
	}
	o.key.wonder(-1)
	r.counts.resolved.Add(1)
	r.conclude(o, a)
}

// replay requests an admission again.
func (r *run) replay(ctx context.Context, p replay) {
	if time.Since(p.when) > idsForgotten {
		return
	}
	o, original := p.operation, p.answer
	a := r.persist(ctx, 0, o.key, o.id, stintv1.Mode_MODE_UNSPECIFIED)
	switch {
	case a.fate != admitted && a.fate != denied:
		r.book.find(finding(unsettled, "%v: id %s was not answered again: %s %s", o.key, o.id, a.code, a.message))
	case a.fate == denied:
		r.book.find(finding(forgotten, "%v: id %s was admitted at %v as unit %d, and is denied when asked again",
			o.key, o.id, original.place, original.used))
	case !a.replayed:
		r.book.find(finding(doubled, "%v: id %s was admitted at %v as unit %d, and again at %v as unit %d", o.key, o.id,
			original.place, original.used, a.place, a.used))
	case a.place != original.place || a.used != original.used || a.at != original.at:
		r.book.find(finding(wrongAnswer, "%v: id %s was unit %d at %v, and is unit %d at %v when asked again",
			o.key, o.id, original.used, original.place, a.used, a.place))
	}
}

// audit reads a counter and compares it with the answers.
func (r *run) audit(ctx context.Context, k *key) {
	final, err := r.readUsed(ctx, k)
	if err != nil {
		r.book.find(finding(unsettled, "%v: cannot be read after the faults: %v", k, err))
		return
	}
	for _, err := range k.settle(final) {
		r.book.find(err)
	}
}

func (r *run) readUsed(ctx context.Context, k *key) (uint64, error) {
	for node := 0; ; node++ {
		attempt, cancel := context.WithTimeout(ctx, r.plan.Deadline)
		final, err := r.caller.used(attempt, node%len(r.plan.Addresses), k)
		cancel()
		if err == nil {
			return final, nil
		}
		if !sleep.For(ctx, 10*time.Millisecond) {
			return 0, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
