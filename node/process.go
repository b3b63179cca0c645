package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/shard/slot"
)

// process is what a node and an edge have in common: the ports for clients, what these need, and why it stops by
// itself. Its exported methods may be called concurrently.
type process struct {
	config    Config
	metrics   *metrics.Metrics
	ports     *ports
	documents *documents
	tokens    *tokens

	// Set by assemble, all at once.
	view        *clusterView
	hop         *hop.Hop
	router      *routing.Router
	decisions   *decisions.Bus // tells of the decisions that are answered here
	decisionLog *decisions.Log // nil: there is none

	ctx      context.Context // ends when the goroutines in running are to end
	cancel   context.CancelFunc
	running  sync.WaitGroup
	stopping atomic.Bool
	fatal    chan error // capacity 1: the first reason to stop
}

// init makes what is there before anything is read or opened.
func (p *process) init(config Config) {
	p.config, p.metrics, p.fatal = config, metrics.New(), make(chan error, 1)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ports = &ports{config: config, stopping: p.stopping.Load, fail: p.fail}
}

// slots returns the shard of each slot, and the number of data shards.
func (p *process) slots() (*slot.Map, uint32) {
	t := p.view.newestTable()
	return t.Slots, t.Shards
}

// serveClients serves the ports for clients. The config has what an edge does otherwise than a node.
func (p *process) serveClients(config api.Config) {
	config.Decider, config.Keys, config.Revision = p.router, p.view.keysOf, p.view.revision
	config.Guard, config.Bus, config.Sealer = p.tokens.guard, p.decisions, p.view.sealer
	p.ports.serveAPI(config)
	p.ports.serveRedis(redis.Config{
		Router:      p.router,
		Keys:        p.view.keysAt,
		Guard:       p.tokens.guard,
		Parents:     p.view.withParents,
		Copies:      p.view.copies,
		Ready:       config.Ready,
		Connections: p.metrics.Connections,
		Listeners:   config.Listeners,
		Tracer:      config.Tracer,
	})
}

// APIAddr is the address on which the API really listens; "" when it is not served.
func (p *process) APIAddr() string { return addrOf(p.ports.listener) }

// GRPCAddr is the address of the port for gRPC alone; "" when there is none.
func (p *process) GRPCAddr() string { return addrOf(p.ports.grpcPort) }

// RedisAddr is the address of the Redis protocol; "" when it is not served.
func (p *process) RedisAddr() string { return addrOf(p.ports.redisPort) }

// fail has the process stop: Done yields the first reason.
func (p *process) fail(err error) {
	select {
	case p.fatal <- untrusted(err):
	default: // there is a first reason already
	}
}

// Done yields the reason to stop, at most once, and not if AwaitReady has returned it.
func (p *process) Done() <-chan error { return p.fatal }

// awaitReady waits until ready returns nil, there is a reason to stop, or ctx ends.
func (p *process) awaitReady(ctx context.Context, ready func() error) error {
	for ready() != nil {
		select {
		case err := <-p.fatal:
			return err
		// it polls: readiness depends on many places, most of them on other nodes
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ready())
		}
	}
	return nil
}
