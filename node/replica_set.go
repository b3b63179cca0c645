package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// evidenceFor is the longest time that the stores of a convicted replica are kept.
const evidenceFor = 7 * 24 * time.Hour

// replicaSet is the set of this node's replicas: those that run, and those that must not be opened. The opener adds and
// removes the running ones. All methods may be called concurrently.
type replicaSet struct {
	now func() time.Time

	mu        sync.RWMutex
	running   map[shard.ID]*replica                  // guarded by mu
	lost      map[raftfsm.Replica]bool               // guarded by mu: must not be opened; not on disk
	convicted map[raftfsm.Replica]raftfsm.Conviction // guarded by mu: likewise; as in the stores
}

func newReplicaSet(now func() time.Time) *replicaSet {
	return &replicaSet{now: now, running: make(map[shard.ID]*replica), lost: make(map[raftfsm.Replica]bool)}
}

// of returns the replica of a shard that runs here; nil when there is none.
func (s *replicaSet) of(id shard.ID) *replica {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.running[id]
}

// all lists the replicas that run here.
func (s *replicaSet) all() []*replica {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.running))
}

// recordBytes returns the memory of the records of all replicas that run here.
func (s *replicaSet) recordBytes() (sum int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.running {
		sum += r.group.RecordBytes()
	}
	return sum
}

// add notes that a replica runs.
func (s *replicaSet) add(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[r.Shard] = r
}

// remove notes that a replica no longer runs.
func (s *replicaSet) remove(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, r.Shard)
}

// owner returns this node's actor of a shard, and whether it owns the shard now.
func (s *replicaSet) owner(id shard.ID) (routing.Owner, bool) {
	r := s.of(id)
	if r == nil {
		return nil, false
	}
	return r.actor, r.actor.Open()
}

// leader names the node of a shard's Raft leader, as this node's own replica knows it.
func (s *replicaSet) leader(id shard.ID) string {
	r := s.of(id)
	if r == nil {
		return ""
	}
	return nodeOf(r.group.Leader())
}

// hintActors makes every actor check at once whether there is something to do.
func (s *replicaSet) hintActors() {
	for _, r := range s.all() {
		r.actor.Hint()
	}
}

// stopped counts the replicas that decide nothing.
func (s *replicaSet) stopped() (count int) {
	for _, r := range s.all() {
		if r.stopped.Load() != nil {
			count++
		}
	}
	return count
}

// held lists the replicas on this node's disk.
func (s *replicaSet) held(stores *raftfsm.Stores) []placement.Held {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var held []placement.Held
	low := stores.LowDisk()
	for _, which := range stores.Groups() {
		c, convicted := s.convicted[which]
		h := placement.Held{Shard: which.Shard, Number: which.Number, Broken: s.lost[which] || convicted,
			Kept: convicted && s.isEvidence(which, c, low)}
		if r := s.running[which.Shard]; r != nil && r.Replica == which {
			h.Open, h.Lone = true, r.lone
		}
		held = append(held, h)
	}
	return held
}

// noteLost notes a replica that must not be opened.
func (s *replicaSet) noteLost(which raftfsm.Replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[which] = true
}

// readConvictions takes the convictions from stores that were just opened.
func (s *replicaSet) readConvictions(stores *raftfsm.Stores) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.convicted = stores.Convictions()
}

// noteConvicted notes a conviction that is in the stores.
func (s *replicaSet) noteConvicted(which raftfsm.Replica, c raftfsm.Conviction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.convicted[which] = c
}

// convictions returns the recent convictions of this node's replicas.
func (s *replicaSet) convictions(within time.Duration) map[raftfsm.Replica]raftfsm.Conviction {
	s.mu.RLock()
	defer s.mu.RUnlock()
	late, now := make(map[raftfsm.Replica]raftfsm.Conviction), s.now()
	for r, c := range s.convicted {
		if now.Sub(c.At).Abs() < within {
			late[r] = c
		}
	}
	return late
}

// isEvidence reports whether the stores of a convicted replica are worth keeping for an inspection. Bad memory can
// convict one replica after another: the newest of each shard is enough, and none is worth a full disk. A time far in
// the future was written by a clock that was wrong. The caller holds s.mu.
func (s *replicaSet) isEvidence(r raftfsm.Replica, c raftfsm.Conviction, lowDisk bool) bool {
	if lowDisk || s.now().Sub(c.At).Abs() >= evidenceFor { //mutant:evidence-fills-the-disk
		return false
	}
	for other := range s.convicted {
		if other.Shard == r.Shard && other.Number > r.Number {
			return false
		}
	}
	return true
}

// standings describes the state of each running replica.
func (s *replicaSet) standings() []Standing {
	var all []Standing
	for _, r := range s.all() {
		at := Standing{Replica: r.Replica}
		r.group.View(func(s *shard.State) { at.Epoch, at.Seq, at.Time, at.Sum = s.Epoch(), s.Seq(), s.Time(), s.Sum() })
		all = append(all, at)
	}
	return all
}
