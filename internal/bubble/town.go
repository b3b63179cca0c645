package bubble

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// Town replaces gossip: every resident asks every other one now and then. A resident hears late, and suspects the residents
// that it has not heard of for a while.
type Town struct {
	mu        sync.Mutex
	residents map[string]*Resident
	deaf      map[[2]string]int // the first hears nothing from the second
}

// NewTown returns a town without residents.
func NewTown() *Town {
	return &Town{residents: make(map[string]*Resident), deaf: make(map[[2]string]int)}
}

// Deafen counts the reasons why one hears nothing from another.
func (t *Town) Deafen(one, other string, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf[[2]string{one, other}] += by
}

// heard lists the residents that a resident hears now and understands: those that speak with one of its keys.
func (t *Town) heard(r *Resident) []*Resident {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Resident
	for _, id := range slices.Sorted(maps.Keys(t.residents)) {
		if id != r.config.Node && t.deaf[[2]string{r.config.Node, id}] == 0 && r.understands(t.residents[id]) {
			all = append(all, t.residents[id])
		}
	}
	return all
}

// MoveIn is gossip.Start. The resident asks the others about once in a pace.
func (t *Town) MoveIn(c gossip.Config, pace time.Duration) *Resident {
	r := &Resident{town: t, config: c, keys: c.Keys, stop: make(chan struct{}), view: make(map[string]gossip.Member),
		lastly: make(map[string]time.Time), owners: make(map[shard.ID]gossip.Hint), changed: make(chan struct{}, 1),
		self: gossip.Member{Node: c.Node, Cluster: c.Cluster, Zone: c.Zone, Version: c.Version, GossipAddr: c.Addr,
			PeerAddr: c.PeerAddr, APIAddr: c.APIAddr, State: gossip.MemberAlive, Expect: c.Expect, Formation: c.Formation}}
	t.mu.Lock()
	t.residents[c.Node] = r
	t.mu.Unlock()
	r.done.Go(func() { r.live(pace) })
	return r
}

// Die removes a resident without a goodbye.
func (t *Town) Die(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.residents, id)
}
