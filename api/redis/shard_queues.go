package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// shardQueues has one queue for each shard. It may be used concurrently.
type shardQueues struct {
	router  Router
	timeout time.Duration   // of a call, from its first request on
	waiting atomic.Int64    // requests without an answer
	placed  atomic.Bool     // the number of shards is known, and so place waits no longer
	calls   sync.WaitGroup  // the queues' calls; the server waits for them
	closing <-chan struct{} // closed when calls stop waiting for more requests

	mu      sync.Mutex                    // held while a queue is made
	byShard atomic.Pointer[[]*shardQueue] // the place is the shard's id; replaced, never changed
}

func newShardQueues(router Router, timeout time.Duration, closing <-chan struct{}) *shardQueues {
	q := &shardQueues{router: router, timeout: timeout, closing: closing}
	q.byShard.Store(new([]*shardQueue))
	return q
}

// of returns the queue of a shard. At the first use it makes those of all lower ids, too.
func (q *shardQueues) of(id shard.ID) *shardQueue {
	if queues := *q.byShard.Load(); int(id) < len(queues) {
		return queues[id]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	queues := *q.byShard.Load()
	for next := len(queues); next <= int(id); next++ {
		l := &shardQueue{all: q, id: shard.ID(next), enough: make(chan struct{}, 1)}
		l.work = l.run
		queues = append(queues[:next:next], l)
	}
	q.byShard.Store(&queues)
	return queues[id]
}

// place returns the shard of a key. It waits until the number of shards is known, for at most the timeout. The first
// attempt does not wait, so that usually no timer is made.
func (q *shardQueues) place(namespace, key string) (shard.ID, *shard.Error) {
	id, err := q.router.Place(overContext, namespace, key)
	if err == nil {
		if !q.placed.Load() {
			q.placed.Store(true)
		}
		return id, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
	defer cancel()
	return q.router.Place(ctx, namespace, key)
}

// overContext is a context that has already ended: with it Router.Place never waits.
var overContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
