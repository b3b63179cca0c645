package testcluster

import (
	"slices"
	"sync"
	"time"
)

// stranger is a sender that could not be identified.
const stranger = -1

// Links defines which node's bytes reach which other node, and with what delay. All methods may be called concurrently.
type Links struct {
	nodes func() int // the number of nodes

	mu      sync.Mutex
	cut     map[[2]int]bool // from, to
	late    time.Duration   // of all bytes, in each direction
	changed chan struct{}   // closed and replaced whenever something changed
	closed  bool            // the test cluster closes: all bytes pass, and the connections end
}

func newLinks(nodes func() int) *Links {
	return &Links{nodes: nodes, cut: map[[2]int]bool{}, changed: make(chan struct{})}
}

func (l *Links) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Links) close() { l.change(func() { l.closed = true }) }

// open reports whether bytes pass now, their delay, and when to ask again.
func (l *Links) open(from, to int) (passes bool, late time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || !l.cut[[2]int{from, to}], l.late, l.changed
}

// await blocks while the link is cut.
func (l *Links) await(from, to int) {
	passes, late, changed := l.open(from, to)
	for !passes {
		<-changed
		passes, late, changed = l.open(from, to)
	}
	time.Sleep(late)
}

// Cut holds the bytes from one node to another. The other direction stays open.
func (l *Links) Cut(from, to int) { l.change(func() { l.cut[[2]int{from, to}] = true }) }

// Mend ends a Cut.
func (l *Links) Mend(from, to int) { l.change(func() { delete(l.cut, [2]int{from, to}) }) }

// Isolate cuts a node off from all others, both ways, and from unidentified senders.
func (l *Links) Isolate(i int) { l.change(func() { l.isolate(i, true) }) }

// Rejoin ends an Isolate. Other cuts between these nodes end too.
func (l *Links) Rejoin(i int) { l.change(func() { l.isolate(i, false) }) }

func (l *Links) isolate(i int, cut bool) {
	others := slices.DeleteFunc(numbers(stranger, l.nodes()), func(n int) bool { return n == i })
	for _, other := range others {
		for _, pair := range [][2]int{{i, other}, {other, i}} {
			if cut {
				l.cut[pair] = true
			} else {
				delete(l.cut, pair)
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
func (l *Links) Heal() {
	l.change(func() {
		clear(l.cut)
		l.late = 0
	})
}

// Delay delays all traffic between nodes by d.
func (l *Links) Delay(d time.Duration) { l.change(func() { l.late = d }) }
