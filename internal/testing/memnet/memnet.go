package memnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Net is a set of layers that reach each other by name.
type Net struct {
	rules atomic.Pointer[rules] // replaced with mu held, read without

	mu     sync.Mutex
	layers map[string]*Layer  // the newest of each name, closed or not
	conns  map[*conn]struct{} // both ends, until each is closed or broken
	chance *rand.Rand         // draws losses
}

// New creates a net without layers and without faults or delays.
func New() *Net {
	n := &Net{layers: make(map[string]*Layer), conns: make(map[*conn]struct{}), chance: rand.New(rand.NewPCG(1, 1))}
	n.rules.Store(&rules{changed: make(chan struct{})})
	return n
}

// Listen creates the layer of a name. It replaces the name's previous layer, if there is one.
func (n *Net) Listen(name string) *Layer {
	l := &Layer{net: n, name: name, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.layers[name] = l
	return l
}

// Cut lets nothing from one name reach the other. Data, and the news that a connection was closed, wait until Heal or
// Mend, and neither end gets an error. No connection can be established while either direction is cut.
func (n *Net) Cut(from, to string) {
	n.change(func(r *rules) { r.cuts = append(r.cuts, link{from, to}) })
}

// Break is a cut in which connections between the two names end with an error, and new ones are refused at once.
func (n *Net) Break(from, to string) {
	n.change(func(r *rules) { r.breaks = append(r.breaks, link{from, to}) })
}

// Mend ends one Cut and one Break that were given with these two names.
func (n *Net) Mend(from, to string) {
	n.change(func(r *rules) {
		r.cuts, r.breaks = withoutOne(r.cuts, link{from, to}), withoutOne(r.breaks, link{from, to})
	})
}

// Isolate breaks exactly this name off from all others, and no name that begins with it, until Rejoin or Heal.
func (n *Net) Isolate(name string) {
	n.change(func(r *rules) { r.isolated = append(r.isolated, name) })
}

// Rejoin ends Isolate.
func (n *Net) Rejoin(name string) {
	n.change(func(r *rules) { r.isolated = without(r.isolated, name) })
}

// Heal ends all cuts, breaks and isolations. Delays and losses stay.
func (n *Net) Heal() {
	n.change(func(r *rules) { r.cuts, r.breaks, r.isolated = nil, nil, nil })
}

// Delay makes data sent from now on arrive later by the given time; 0 ends that. If several delays match, the newest
// counts. The bytes of a connection stay in order.
func (n *Net) Delay(from, to string, by time.Duration) {
	n.change(func(r *rules) { r.delays = append(r.delays, fault[time.Duration]{link{from, to}, by}) })
}

// Lose makes the given percentage of writes get lost, on each transmission. A lost write, and the later writes on the
// same connection, arrive with the next transmission 200 ms later. If several losses match, the newest counts; 0 ends
// it.
func (n *Net) Lose(from, to string, percent int) {
	n.change(func(r *rules) { r.losses = append(r.losses, fault[int]{link{from, to}, percent}) })
}

// change installs new rules, wakes all calls that wait for a change, and ends the connections that the new rules
// forbid.
func (n *Net) change(edit func(*rules)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.rules.Load()
	next := old.clone()
	edit(next)
	n.rules.Store(next)
	close(old.changed)
	for c := range n.conns {
		if next.broken(c.out.from, c.out.to) {
			c.out.reset()
			c.in.reset()
			delete(n.conns, c)
		}
	}
}

// transit is how long data sent now takes to arrive.
func (n *Net) transit(from, to string) time.Duration {
	const transmission, most = 200 * time.Millisecond, 5
	r := n.rules.Load()
	took, percent := newest(r.delays, from, to), newest(r.losses, from, to)
	if percent == 0 {
		return took
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := 0; i < most && n.chance.IntN(100) < percent; i++ {
		took += transmission
	}
	return took
}

// connect makes a connection, if the current rules allow it.
func (n *Net) connect(from, to string) (near, far *conn, target *Layer, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	target = n.layers[to]
	if target == nil || n.rules.Load().broken(from, to) {
		return nil, nil, nil, fmt.Errorf("memnet: %s cannot reach %s: %w", from, to, syscall.ECONNREFUSED)
	}
	there, back := newHalf(n, from, to), newHalf(n, to, from)
	near, far = &conn{net: n, out: there, in: back}, &conn{net: n, out: back, in: there}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, far, target, nil
}

func (n *Net) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}
