package testcluster

import (
	"slices"
	"sync"
	"time"
)

// stranger is a sender that could not be identified.
const stranger = -1

// links says which node's bytes reach which other node, and with what delay.
type links struct {
	mu      sync.Mutex
	cut     map[[2]int]bool // from, to
	late    time.Duration
	changed chan struct{} // closed and replaced whenever something changed
	closed  bool
}

func newLinks() *links { return &links{cut: map[[2]int]bool{}, changed: make(chan struct{})} }

func (l *links) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *links) close() { l.change(func() { l.closed = true }) }

// open reports whether bytes pass now, their delay, and when to ask again.
func (l *links) open(from, to int) (passes bool, late time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut[[2]int{from, to}], l.late, l.changed
}

// await blocks while the link is cut. It returns false when the test cluster closes.
func (l *links) await(from, to int) bool {
	for {
		passes, late, changed := l.open(from, to)
		if l.isClosed() {
			return false
		}
		if passes {
			time.Sleep(late)
			return true
		}
		<-changed
	}
}

func (l *links) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Cut holds what node from sends to node to. The other direction stays open.
func (c *Cluster) Cut(from, to int) { c.links.change(func() { c.links.cut[[2]int{from, to}] = true }) }

// Mend ends a Cut.
func (c *Cluster) Mend(from, to int) {
	c.links.change(func() { delete(c.links.cut, [2]int{from, to}) })
}

// Isolate cuts a node off from all others, both ways, and from unidentified senders.
func (c *Cluster) Isolate(i int) { c.links.change(func() { c.isolate(i, true) }) }

// Rejoin ends an Isolate. Other cuts between these nodes end too.
func (c *Cluster) Rejoin(i int) { c.links.change(func() { c.isolate(i, false) }) }

func (c *Cluster) isolate(i int, cut bool) {
	others := slices.DeleteFunc(numbers(stranger, c.Len()), func(n int) bool { return n == i })
	for _, other := range others {
		for _, pair := range [][2]int{{i, other}, {other, i}} {
			if cut {
				c.links.cut[pair] = true
			} else {
				delete(c.links.cut, pair)
			}
		}
	}
}

// numbers returns the numbers from first up to, but not including, end.
func numbers(first, end int) (all []int) {
	for n := first; n < end; n++ {
		all = append(all, n)
	}
	return all
}

// Heal ends all cuts and delays.
func (c *Cluster) Heal() {
	c.links.change(func() {
		clear(c.links.cut)
		c.links.late = 0
	})
}

// Delay delays all traffic between nodes by d.
func (c *Cluster) Delay(d time.Duration) { c.links.change(func() { c.links.late = d }) }
