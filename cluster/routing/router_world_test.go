package routing

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/shard"
)

// model is the true state of one shard as its log would keep it, whichever node owns it: a counter for each key, and a
// minimal implementation of sessions (shard.Session) and ids.
type model struct {
	mu       sync.Mutex
	limit    int
	counts   map[string]int
	ids      map[string]bool
	sessions map[shard.Session]*modelSession
	opened   uint64
	applied  []shard.Request
}

type modelSession struct {
	acked           uint64
	counted, denied map[uint64]bool
}

func newModel(limit int) *model {
	return &model{limit: limit, counts: map[string]int{}, ids: map[string]bool{},
		sessions: map[shard.Session]*modelSession{}}
}

func (m *model) apply(r *shard.Request) shard.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = append(m.applied, *r)
	switch {
	case r.Op == shard.OpenSession:
		m.opened++
		name := shard.Session{Epoch: 1, Seq: m.opened}
		m.sessions[name] = &modelSession{counted: map[uint64]bool{}, denied: map[uint64]bool{}}
		return shard.Result{Decision: shard.Decision{Allowed: true, System: &shard.SystemAnswer{Session: name}}}
	case r.Op != shard.Check:
		return shard.Result{Decision: shard.Decision{Allowed: true}}
	case r.Number == 0:
		return shard.Result{Decision: shard.Decision{Allowed: m.ids[r.Namespace+r.ID] || m.count(r)}}
	}
	s := m.sessions[r.Session]
	if s == nil || r.Number <= s.acked {
		return shard.Result{Err: &shard.Error{Code: shard.SessionGone, Message: "no such session"}}
	}
	s.acked = max(s.acked, r.Acked)
	if s.denied[r.Number] {
		return shard.Result{Err: &shard.Error{Code: shard.TooLate, Message: "a copy was denied for good"}}
	}
	replayed := s.counted[r.Number]
	allowed := replayed || m.ids[r.Namespace+r.ID] || m.count(r)
	s.counted[r.Number] = allowed
	s.denied[r.Number] = !allowed && r.Retry
	return shard.Result{Decision: shard.Decision{Allowed: allowed, Replayed: replayed, Index: 1}}
}

func (m *model) count(r *shard.Request) bool {
	key := r.Entries[0].Key
	if m.counts[key] >= m.limit {
		return false
	}
	m.counts[key]++
	if r.ID != "" {
		m.ids[r.Namespace+r.ID] = true
	}
	return true
}

func (m *model) counted(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[key]
}

// allow changes the limit of every key.
func (m *model) allow(limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = limit
}

// forget drops all sessions.
func (m *model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.sessions)
}

// town is nodes n1, n2, ... with replicas of one shard: each has a Router and reaches the others. Tests may interfere
// with a request at the node that is to decide it.
type town struct {
	*model
	nodes map[string]*townNode
	late  sync.WaitGroup // work on behalf of callers, which may have given up

	mu    sync.Mutex
	owner string
	epoch uint64
	// before is called at the node that is to decide a request, owner or not, and after when the owner has applied it.
	// They may block, and replace the answer by an error.
	before, after func(node string, r *shard.Request) *shard.Error
	asked         []string // the asked nodes, in order
	hops          int      // maximum seen
	plain         bool     // requests travel without sessions
}

type townNode struct {
	*Router
	town   *town
	name   string
	hints  *gossip.Hints
	leader string // the leader that its replica believes in
}

func newTown(t *testing.T, nodes int) *town {
	nothing := func(string, *shard.Request) *shard.Error { return nil }
	w := &town{model: newModel(1 << 30), nodes: map[string]*townNode{}, before: nothing, after: nothing}
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	for _, name := range names {
		n := &townNode{town: w, name: name, hints: gossip.NewHints(1)}
		n.Router = New(Config{
			Node:     name,
			Slots:    evenly(1),
			Places:   func(shard.ID) []string { return names },
			Local:    func(shard.ID) (Owner, bool) { return townActor{n}, w.owns(name) },
			Leader:   func(shard.ID) string { w.mu.Lock(); defer w.mu.Unlock(); return n.leader },
			Forward:  townWire{w},
			Hints:    n.hints,
			Sessions: func(shard.ID) bool { return !w.plain },
		})
		w.nodes[name] = n
	}
	t.Cleanup(w.late.Wait)
	return w
}

func (w *town) owns(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owner == node
}

// move makes a node the owner. The node itself knows, and told lists the other nodes that are informed.
func (w *town) move(node string, told ...string) {
	w.mu.Lock()
	w.owner = node
	w.epoch++
	hint := gossip.Hint{Epoch: w.epoch, Node: node}
	w.mu.Unlock()
	for _, n := range w.nodes {
		if n.name == node {
			n.Wake()
		}
	}
	for _, name := range told {
		w.nodes[name].hints.Merge(hint)
	}
}

// leads makes a node's replica believe in a leader.
func (w *town) leads(at, leader string) {
	w.mu.Lock()
	w.nodes[at].leader = leader
	w.mu.Unlock()
	w.nodes[at].Wake()
}

// whom returns the nodes that were asked since the last call.
func (w *town) whom() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := strings.Join(w.asked, " ")
	w.asked = nil
	return asked
}

// run executes do for a caller that waits until ctx ends; do continues even if the caller has given up.
func (w *town) run(ctx context.Context, requests []shard.Request, do func() []shard.Result) []shard.Result {
	done := make(chan []shard.Result, 1)
	w.late.Go(func() { done <- do() })
	select {
	case results := <-done:
		return results
	case <-ctx.Done():
		return shard.RefuseAll(len(requests), failure(shard.UnknownOutcome))
	}
}

func failure(code shard.Code) *shard.Error {
	return &shard.Error{Code: code, Message: fmt.Sprintf("failure %d", code)}
}

// townActor is the node as Owner. Like an actor, it reads the requests themselves, even after its caller gave up.
type townActor struct{ *townNode }

func (n townActor) Submit(ctx context.Context, requests []shard.Request) []shard.Result {
	w := n.town
	return w.run(ctx, requests, func() []shard.Result {
		w.mu.Lock()
		w.asked = append(w.asked, n.name)
		w.mu.Unlock()
		results := make([]shard.Result, len(requests))
		for i := range requests {
			results[i] = w.decide(n.name, &requests[i])
		}
		return results
	})
}

func (w *town) decide(node string, r *shard.Request) shard.Result {
	if err := w.before(node, r); err != nil {
		return shard.Result{Err: err}
	}
	if !w.owns(node) {
		return shard.Result{Err: failure(shard.NotOwner)}
	}
	result := w.apply(r)
	if err := w.after(node, r); err != nil {
		return shard.Result{Err: err}
	}
	return result
}

// townWire stands for Hop.
type townWire struct{ *town }

func (w townWire) Submit(
	ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request,
) []shard.Result {
	if hops >= hop.MaxHops {
		return shard.RefuseAll(len(requests), failure(shard.NotOwner))
	}
	sent := append([]shard.Request(nil), requests...)
	return w.run(ctx, requests, func() []shard.Result {
		n := w.nodes[node]
		w.mu.Lock()
		w.hops = max(w.hops, hops+1)
		here := w.owner == node
		if !here {
			w.asked = append(w.asked, node)
		}
		w.mu.Unlock()
		return n.Forwarded(context.WithoutCancel(ctx), hops+1, id, sent)
	})
}
