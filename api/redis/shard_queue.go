package redis

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/batchwait"
	"github.com/stint-io/stint/shard"
)

// Bounds on the requests that wait.
const (
	queueRequestsMost = 1 << 14
	queueBytesMost    = 8 << 20
	requestsMost      = 1 << 17
)

// callsMost bounds the calls of a shard that are under way while the node's requests are spread over shards.
const callsMost = 8

// shardQueue carries the requests for one shard, in one of two modes (docs/benchmarks/batch-waits.md).
//
// If most of the node's requests are for this shard, it has one call under way, and the next one waits a moment for the
// connections that were just answered: a second call beside it would take a third from the size of a call, and cost a
// fifth more processor time per command.
//
// Otherwise most of the clients that were just answered now ask other shards, so the queue does not wait for them, and
// up to callsMost calls are under way. The owner gathers requests from all nodes: its entries hold half as many
// commands again as if each node waited here.
type shardQueue struct {
	all    *shardQueues
	id     shard.ID
	work   func()        // the method run
	enough chan struct{} // of capacity 1; gets a value when as many rounds wait as the next call wants

	mu     sync.Mutex     // guards the fields below
	queue  []*batch       // the batches for the next call and for later ones
	held   load           // sum of the queue
	rounds int            // rounds in the queue, one for each connection
	pace   batchwait.Pace // how long the next call waits, and for how many rounds
	want   int            // number of rounds that the next call waits for; 0 disables waiting
	calls  int            // calls under way or about to leave
	ours   int            // requests of this shard without an answer
}

var errFull = &shard.Error{Code: shard.Overloaded, Message: "too many commands wait for this shard on this node; " +
	"nothing was counted; ask again"}

// add adds a part of a round, or answers it if there is no room. A part travels in one call, so that its commands keep
// their order. The round may have ended when add returns.
func (l *shardQueue) add(r *round, p part) {
	l.mu.Lock()
	if l.held.requests >= queueRequestsMost || l.held.bytes >= queueBytesMost ||
		l.all.waiting.Load() >= requestsMost {
		l.mu.Unlock()
		for i := p.first; i >= 0; i = r.commands[i].next {
			r.commands[i].result.Err = errFull
		}
		r.partDone()
		return
	}
	b := l.open(p.load)
	for i := p.first; i >= 0; i = r.commands[i].next {
		b.add(&r.commands[i], r.span)
	}
	b.rounds = append(b.rounds, r)
	b.load.add(p.load)
	l.held.add(p.load)
	l.all.waiting.Add(int64(p.requests))
	l.rounds++
	l.ours += p.requests
	if l.want > 0 && (l.rounds >= l.want || len(l.queue) > 1) {
		l.want = 0
		l.enough <- struct{}{} // has room: the channel is emptied before want is set
	}
	start := l.calls == 0 || l.calls < callsMost && !l.most()
	if start {
		l.calls++
	}
	l.mu.Unlock()
	if start {
		l.all.calls.Go(l.work)
	}
}

// most reports whether most of the node's requests without an answer are for this shard. The caller holds mu.
func (l *shardQueue) most() bool { return int64(2*l.ours) > l.all.waiting.Load() }

// open returns the last batch if it has room for more, else a new one. The caller holds mu.
func (l *shardQueue) open(more load) *batch {
	if last := len(l.queue) - 1; last >= 0 {
		b := l.queue[last]
		if b.load.requests+more.requests <= callRequestsMost && b.load.bytes+more.bytes <= callBytesMost {
			return b
		}
	}
	b := batches.Get().(*batch)
	b.since = time.Now()
	l.queue = append(l.queue, b)
	return b
}

// take removes the batch of the next call. The queue must not be empty. The caller holds mu.
func (l *shardQueue) take() *batch {
	b := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	l.held.add(load{-b.load.requests, -b.load.bytes})
	l.rounds -= len(b.rounds)
	return b
}

// run makes one call, unless an earlier one took its requests along. If the next call waits for the clients of this
// one, their replies are written first. Otherwise the next call starts before the replies are written, so that disk and
// processors work at the same time.
func (l *shardQueue) run() {
	runtime.Gosched() // connections that can be read now join this call
	b := l.depart()
	if b == nil {
		return
	}
	began := time.Now()
	reusable := l.call(b)
	l.mu.Lock()
	now := time.Now()
	replied := l.calls == 1 && l.most() && l.pace.Answered(len(b.rounds), l.rounds, now.Sub(began), now)
	l.ours -= b.load.requests
	l.all.waiting.Add(-int64(b.load.requests))
	if replied {
		l.mu.Unlock()
		b.reply()
		l.mu.Lock()
	}
	if len(l.queue) > 0 {
		l.all.calls.Go(l.work)
	} else {
		l.calls--
	}
	l.mu.Unlock()
	if !replied {
		b.reply()
	}
	if reusable {
		b.release()
	}
}

// depart waits until the next call is due and returns its batch, or nil, with the call ended, if another one took all
// requests.
func (l *shardQueue) depart() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case len(l.queue) == 0:
			l.calls--
			return nil
		case l.calls > 1 || !l.most():
			return l.take()
		case len(l.queue) > 1:
			l.pace.End() // further requests would not fit into this call
		}
		due := l.queue[0].since.Add(l.all.timeout / 2)
		left := l.pace.Left(l.rounds, due, time.Now())
		if left <= 0 {
			return l.take()
		}
		l.want = l.pace.Target()
		l.mu.Unlock()
		ended := l.await(left)
		l.mu.Lock()
		if l.want = 0; ended {
			l.pace.End()
		}
		select { // a round may have come just as the wait ended
		case <-l.enough:
		default:
		}
	}
}

// await waits for the wanted number of rounds. It reports whether waiting must end: time is up, or the server closes.
func (l *shardQueue) await(atMost time.Duration) (ended bool) {
	select {
	case <-l.enough:
		return false
	case <-time.After(atMost):
	case <-l.all.closing:
	}
	return true
}

// call decides a batch and stores the answers. It reports whether the requests may be reused, because they have no
// reader left.
func (l *shardQueue) call(b *batch) (reusable bool) {
	ctx, cancel := context.WithDeadline(context.Background(), b.since.Add(l.all.timeout))
	results := l.all.router.Submit(ctx, l.id, b.requests)
	cancel()
	reusable = true
	for i := range results {
		b.commands[i].result = results[i]
		if err := results[i].Err; err != nil && err.MaybeApplied() {
			reusable = false
		}
	}
	return reusable
}
