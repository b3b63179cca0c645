package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// gatherer has one queue for each shard. It may be used concurrently.
type gatherer struct {
	router  Router
	timeout time.Duration
	waiting atomic.Int64    // requests without an answer
	calls   sync.WaitGroup  // the queues' calls; the server waits for them
	closing <-chan struct{} // closed when calls stop waiting for more requests

	mu     sync.Mutex // held while a queue is made
	queues atomic.Pointer[[]*shardQueue]
}

func newGatherer(router Router, timeout time.Duration, closing <-chan struct{}) *gatherer {
	g := &gatherer{router: router, timeout: timeout, closing: closing}
	g.queues.Store(new([]*shardQueue))
	return g
}

func (g *gatherer) queueOf(id shard.ID) *shardQueue {
	if queues := *g.queues.Load(); int(id) < len(queues) {
		return queues[id]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	queues := *g.queues.Load()
	for next := len(queues); next <= int(id); next++ {
		l := &shardQueue{gatherer: g, id: shard.ID(next), back: make(chan struct{}, 1)}
		l.work = l.run
		queues = append(queues[:next:next], l)
	}
	g.queues.Store(&queues)
	return queues[id]
}

// place returns the shard of a key. It waits until the number of shards is known, for at most the timeout.
func (g *gatherer) place(namespace, key string) (shard.ID, *shard.Error) {
	id, err := g.router.Place(overContext, namespace, key)
	if err == nil {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	return g.router.Place(ctx, namespace, key)
}

// overContext is a context that has already ended.
var overContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
