package node

import (
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// staleReader reads from this node's replicas without a commit. It holds no state; all methods may be called
// concurrently.
type staleReader struct {
	now      func() time.Time
	view     *clusterView
	replicas *replicaSet
}

// read answers a Get from this node's replicas, without a commit (X13). Each entry is as of its own shard's time.
// behind is how far the oldest of them lies behind this node's clock. It is an upper bound: a shard without writes
// looks older than it is. ok is false where a replica is missing: then another node must be asked.
func (s *staleReader) read(r shard.Request) (d shard.Decision, behind time.Duration, ok bool) {
	revision, slots := s.view.revision(), s.view.slots()
	if revision == nil || slots == nil {
		return d, 0, false
	}
	// A replica that lags may not know of a move to its shard. It has none of the keys then, and must not answer.
	founded := s.view.newestTable().FoundedSlots()
	for i := range r.Entries {
		one := r
		one.Entries = r.Entries[i : i+1]
		result, found := s.readOne(shard.Of(slots, r.Namespace, one.Entries[0].Key), one, founded)
		if !found || result.Err != nil {
			return d, 0, false
		}
		if fired := result.Decision.Answer().Fired; fired != nil {
			d.System = &shard.SystemAnswer{Fired: append(d.Answer().Fired, fired...)}
		}
		if d.Limits = append(d.Limits, result.Decision.Limits...); i == 0 || result.Decision.DecidedAt < d.DecidedAt {
			d.DecidedAt, d.Position = result.Decision.DecidedAt, result.Decision.Position
		}
	}
	now := limit.Time(s.now().UnixMicro())
	return d, max(0, time.Duration(now-d.DecidedAt)*time.Microsecond), true
}

func (s *staleReader) readOne(id shard.ID, r shard.Request, founded *slot.Map) (result shard.Result, ok bool) {
	replica := s.replicas.of(id)
	//mutant:stale-read-from-a-stopped-replica
	if replica == nil || replica.stopped.Load() != nil { // its records are, or may be, wrong
		return result, false
	}
	replica.group.View(func(state *shard.State) {
		if state.Epoch() == 0 {
			return // it has received nothing yet
		}
		at := shard.Stamp{Position: shard.Position{Shard: id, Epoch: state.Epoch(), Seq: state.Seq()},
			Now: state.Time(), Slots: founded} //mutant:stale-read-before-a-move
		results, _ := shard.Evaluate(state, s.view.revision().Set, []shard.Request{r}, at)
		result, ok = results[0], true
	})
	return result, ok
}
