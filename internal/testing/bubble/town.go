package bubble

import (
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// Town replaces gossip: every resident asks every other one now and then. A resident hears late, and suspects the
// residents that it has not heard from for a while. Of two residents with one id, the others hear the first, as long as
// they can.
type Town struct {
	mu        sync.Mutex
	residents []*Resident
	deaf      map[[2]string]int // by two addresses: the reasons why the first hears nothing from the second
}

// NewTown returns a town without residents.
func NewTown() *Town {
	return &Town{deaf: make(map[[2]string]int)}
}

// Deafen counts the reasons why the resident at one gossip address hears nothing from another one.
func (t *Town) Deafen(one, other string, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf[[2]string{one, other}] += by
}

// heard lists the residents that a resident hears now and understands: those that seal with one of its keys.
func (t *Town) heard(r *Resident) []*Resident {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Resident
	for _, other := range t.residents {
		if other.config.Node != r.config.Node && t.deaf[[2]string{r.config.Addr, other.config.Addr}] == 0 &&
			r.understands(other) && !slices.ContainsFunc(all, func(first *Resident) bool {
			return first.config.Node == other.config.Node
		}) {
			all = append(all, other)
		}
	}
	return all
}

// MoveIn is gossip.Start. The resident asks the others about once in a pace.
func (t *Town) MoveIn(c gossip.Config, pace time.Duration) *Resident {
	r := &Resident{town: t, config: c, keys: c.Keys, stop: make(chan struct{}), view: make(map[string]gossip.Member),
		lastly: make(map[string]time.Time), owners: make(map[shard.ID]gossip.Hint), changed: make(chan struct{}, 1),
		self: c.Member}
	t.mu.Lock()
	t.forget(c.Node, c.Addr)
	t.residents = append(t.residents, r)
	t.mu.Unlock()
	r.done.Go(func() { r.live(pace) })
	return r
}

// Die removes a resident without a goodbye. Its own goroutine goes on and hears the others, until Stop.
func (t *Town) Die(id, addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(id, addr)
}

// forget removes the residents with an id at an address, and those with the id that have said goodbye. The caller holds
// mu.
func (t *Town) forget(id, addr string) {
	t.residents = slices.DeleteFunc(t.residents, func(r *Resident) bool {
		return r.config.Node == id && (r.config.Addr == addr || r.hasLeft())
	})
}
