package peer

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
)

const (
	probeEvery = 500 * time.Millisecond
	dialWithin = time.Second
	freshFor   = 5 * time.Second // older reports and measurements are not used (R18)
)

// HealthProbeConfig says which nodes a HealthProbe asks, and how often. Fields without a default are required. Question
// and OnReport are called concurrently for different nodes, and in order for one node. None of the functions may call
// Stop.
type HealthProbeConfig struct {
	Node string
	// Others returns the nodes to ask; it may name this node, which is skipped. One goroutine calls it.
	Others   func() []string
	Dial     func(ctx context.Context, node string) (net.Conn, error) // Port.DialAsk
	Question func() placement.Question
	Every    time.Duration          // time between a report and the next question; 0: 500 ms
	OnReport func(placement.Report) // called with each report; while it runs, that node is not asked
	Now      func() time.Time       // this machine's clock; nil: time.Now
	Logger   *slog.Logger
}

func (c HealthProbeConfig) withDefaults() HealthProbeConfig {
	if c.Every <= 0 {
		c.Every = probeEvery
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// HealthProbe asks every other node for Reports repeatedly, over one connection to each, and measures the node's clock
// along the way. Each node has its own goroutine, so one that hangs delays no other. All methods may be called
// concurrently, also after Stop.
type HealthProbe struct {
	config     HealthProbeConfig
	kicked     chan struct{} // has room for one
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu     sync.Mutex
	asking map[string]*asker // by node; changed by follow only
}

// StartHealthProbe begins to ask at once. Stop must be called.
func StartHealthProbe(config HealthProbeConfig) *HealthProbe {
	p := &HealthProbe{config: config.withDefaults(), kicked: make(chan struct{}, 1), asking: make(map[string]*asker)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.goroutines.Go(func() { p.follow(ctx) })
	return p
}

// Stop ends all questions and closes the connections. No function of the configuration runs after it.
func (p *HealthProbe) Stop() {
	p.cancel()
	p.goroutines.Wait()
}

// Kick asks all nodes now. A node that is being asked is asked once more after that.
func (p *HealthProbe) Kick() { signal(p.kicked) }

// follow keeps one asker running for each other node.
func (p *HealthProbe) follow(ctx context.Context) {
	for {
		p.appoint(ctx, p.config.Others())
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.config.Every):
		case <-p.kicked:
			p.appoint(ctx, p.config.Others())
			for _, a := range p.askers() {
				signal(a.wake)
			}
		}
	}
}

// appoint starts askers for new nodes and stops those of nodes that are no longer listed.
func (p *HealthProbe) appoint(ctx context.Context, others []string) {
	now := p.config.Now() // not under the lock: in a simulation the clock of a paused process blocks
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, a := range p.asking {
		if !slices.Contains(others, node) {
			a.dismiss()
			delete(p.asking, node)
		}
	}
	for _, node := range others {
		if node == p.config.Node || p.asking[node] != nil {
			continue
		}
		mine, dismiss := context.WithCancel(ctx)
		a := &asker{config: &p.config, node: node, dismiss: dismiss, wake: make(chan struct{}, 1),
			others: make(chan otherQuestion), counted: now}
		p.asking[node] = a
		p.goroutines.Go(func() { a.run(mine) })
	}
}

func (p *HealthProbe) askers() map[string]*asker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.asking)
}

// Ask asks a node a question that says nothing about its health, over the connection that there is with it: making one
// takes longer than many an answer. It fails if there is none, or if the node is not one that is asked.
func (p *HealthProbe) Ask(ctx context.Context, node string, q placement.Question) (placement.Report, error) {
	a := p.askers()[node]
	if a == nil {
		return placement.Report{}, errNotConnected
	}
	answered := make(chan otherAnswer, 1)
	select {
	case a.others <- otherQuestion{q, answered}:
	case <-ctx.Done():
		return placement.Report{}, ctx.Err()
	}
	select {
	case answer := <-answered:
		return answer.report, answer.err
	case <-ctx.Done():
		return placement.Report{}, ctx.Err()
	}
}

// Forget drops the latest report of a node and asks the node again at once: its process may have died.
func (p *HealthProbe) Forget(node string) {
	if a := p.askers()[node]; a != nil {
		a.forget()
		signal(a.wake)
	}
}

// Reports returns the latest report of every node that has answered within the last 5 s.
func (p *HealthProbe) Reports() map[string]placement.Report {
	now, reports := p.config.Now(), make(map[string]placement.Report)
	for node, a := range p.askers() {
		if report, ok := a.latest(now); ok {
			reports[node] = report
		}
	}
	return reports
}

// Silent returns for each other node how long it has not answered; 0: it answers. Only time in which this process was
// asking counts, so a process that was paused does not blame the others.
func (p *HealthProbe) Silent() map[string]time.Duration {
	now, silent := p.config.Now(), make(map[string]time.Duration)
	for node, a := range p.askers() {
		silent[node] = a.silence(now)
	}
	return silent
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // already signaled
	}
}
