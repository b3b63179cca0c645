package bubble

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// Resident is one node's membership. It implements node.Membership.
type Resident struct {
	town   *Town
	config gossip.Config // as it moved in; self and keys are what holds now
	stop   chan struct{} // closed by the first Stop
	once   sync.Once
	done   sync.WaitGroup // the goroutine of live

	mu      sync.Mutex // guards the fields below; never held together with that of another resident
	keys    [][]byte   // the first one seals; without keys it speaks plaintext
	self    gossip.Member
	view    map[string]gossip.Member // by node: what it has heard of the others
	lastly  map[string]time.Time     // by node: when it has heard it
	owners  map[shard.ID]gossip.Hint // the shards that this node has announced as its own
	changed chan struct{}            // holds a token when self has changed
}

// suspectAfter is how long a resident may be silent before it is suspected.
const suspectAfter = 3 * time.Second

func (r *Resident) live(pace time.Duration) {
	for {
		select {
		case <-r.changed:
		case <-time.After(pace/2 + rand.N(pace)):
			if !r.listen() {
				continue
			}
		case <-r.stop:
			return
		}
		r.config.OnChange()
	}
}

// listen learns from the other residents, and reports whether anything was new.
func (r *Resident) listen() (news bool) {
	now := time.Now()
	for _, other := range r.town.heard(r) {
		told, owners := other.tell()
		for _, hint := range owners {
			r.config.Hints.Merge(hint)
		}
		r.mu.Lock()
		r.lastly[told.Node] = now
		news = news || fmt.Sprint(r.view[told.Node]) != fmt.Sprint(told)
		r.view[told.Node] = told
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.view {
		if m.State == gossip.MemberAlive && now.Sub(r.lastly[id]) > suspectAfter {
			m.State = gossip.MemberSuspect
			r.view[id] = m
			news = true
		}
	}
	return news
}

func (r *Resident) tell() (gossip.Member, []gossip.Hint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self, slices.Collect(maps.Values(r.owners))
}

func (r *Resident) hasLeft() bool {
	self, _ := r.tell()
	return self.State == gossip.MemberLeft
}

// Members implements node.Membership.
func (r *Resident) Members() []gossip.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(slices.Collect(maps.Values(r.view)), r.self)
	slices.SortFunc(all, func(a, b gossip.Member) int { return strings.Compare(a.Node, b.Node) })
	return all
}

// Silent implements node.Membership.
func (r *Resident) Silent() (silent []string) {
	heard := r.town.heard(r)
	for _, seed := range r.config.Seeds {
		if seed != r.config.Addr &&
			!slices.ContainsFunc(heard, func(other *Resident) bool { return other.config.Addr == seed }) {
			silent = append(silent, seed)
		}
	}
	return silent
}

// SetCluster implements node.Membership.
func (r *Resident) SetCluster(id string) error {
	return r.become(func(m *gossip.Member) error {
		if m.Cluster != "" && m.Cluster != id {
			return fmt.Errorf("%s is of cluster %s and was told %s", m.Node, m.Cluster, id)
		}
		m.Cluster = id
		return nil
	})
}

// Announce implements node.Membership.
func (r *Resident) Announce(f gossip.Formation) error {
	return r.become(func(m *gossip.Member) error {
		if m.Cluster != "" && m.Cluster != f.Cluster {
			return fmt.Errorf("%s is of cluster %s and cannot found %s", m.Node, m.Cluster, f.Cluster)
		}
		m.Cluster, m.Formation = f.Cluster, &f
		return nil
	})
}

func (r *Resident) become(edit func(*gossip.Member) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := edit(&r.self)
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return err
}

// SetKeys implements node.Membership.
func (r *Resident) SetKeys(keys [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = keys
	return nil
}

// seals returns the key that the resident seals with, or nil.
func (r *Resident) seals() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) == 0 {
		return nil
	}
	return r.keys[0]
}

// understands reports whether the resident can open another one's messages.
func (r *Resident) understands(other *Resident) bool {
	sealed := other.seals()
	r.mu.Lock()
	defer r.mu.Unlock()
	return sealed == nil && len(r.keys) == 0 ||
		slices.ContainsFunc(r.keys, func(key []byte) bool { return bytes.Equal(key, sealed) })
}

// AnnounceOwner implements node.Membership.
func (r *Resident) AnnounceOwner(id shard.ID, epoch uint64) {
	hint := gossip.Hint{Shard: id, Epoch: epoch, Node: r.config.Node}
	r.config.Hints.Merge(hint)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[id] = hint
}

// Stop implements node.Membership.
func (r *Resident) Stop() {
	r.once.Do(func() { close(r.stop) })
	r.done.Wait()
	r.become(func(m *gossip.Member) error { m.State = gossip.MemberLeft; return nil })
}
