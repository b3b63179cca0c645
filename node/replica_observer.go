package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// replicaObserver puts what replicas notice where it belongs: into the metrics and the log, to gossip and the router,
// and where the node must not go on, to its end. All methods may be called concurrently.
type replicaObserver struct {
	node    string // id of this node
	metrics *metrics.Metrics
	logger  *slog.Logger
	view    *clusterView
	peers   *peers
	wake    func() // makes the router look for owners again
	changed notifier
	fail    func(error)
	writes  *writeTimes
	bus     *decisions.Bus // gets what happens to keys

	handOver func(id shard.ID, reason string) // gives a shard away that this node should not own
}

// appended is called when log entries were written and fsynced.
func (o *replicaObserver) appended(took time.Duration, entries int) {
	o.metrics.Append(took, entries)
	o.writes.add(took)
}

// leadership is called when a group has another leader, or none.
func (o *replicaObserver) leadership() {
	o.wake()
	o.changed.notify()
}

// applied is called when an entry was installed or dropped. One of the system shard may bring a newer document, which
// the reconciler learns from this node's replica.
func (o *replicaObserver) applied(id shard.ID, outcome shard.Outcome) {
	if outcome.Dropped != shard.NotDropped {
		o.metrics.Drop(uint32(id), outcome.Dropped.String())
	}
	if id == shard.System {
		o.changed.notify()
	}
}

// ofActor puts what the actor of a shard notices where it belongs. A refusal names the policy and the namespace, and no
// key.
func (o *replicaObserver) ofActor(id shard.ID) actor.Observer {
	o.metrics.Watched(uint32(id))
	return actor.Observer{
		Batch:  func(requests, effects, bytes int) { o.metrics.Batch(uint32(id), requests, effects, bytes) },
		Commit: func(took time.Duration) { o.metrics.Commit(uint32(id), took) },
		Epoch: func(epoch uint64) {
			o.metrics.Epoch(uint32(id), epoch)
			if epoch > 0 {
				o.peers.gossip.AnnounceOwner(id, epoch)
			}
			o.leadership()
		},
		TimeStep: func(last, now limit.Time) { o.fail(timeStepError(id, last, now)) },
		Frozen: func(behind time.Duration) {
			o.metrics.Frozen(uint32(id))
			o.logger.Error("shard time stands still: this machine's clock is behind what it was; set the clock",
				"shard", id, "behind", behind)
		},
		Capped: func(refusal *shard.Error) {
			o.metrics.Capped(uint32(id))
			o.logger.Error("new keys are refused", "shard", id, "refusal", refusal.Message)
		},
		Full: func() {
			o.metrics.Full(uint32(id))
			o.logger.Error("a node with a copy of the shard has no memory for more records: "+
				"new keys, ids and holds are refused", "shard", id)
		},
		Fault: func(met *shard.Error) {
			o.logger.Error("a defect of stint met a request, which alone failed: report it with this text",
				"shard", id, "error", met)
		},
		Unreadable: func(version uint64, err error) {
			o.logger.Error("the policies that the shard has adopted cannot be read: run a newer version",
				"shard", id, "version", version, "error", err)
		},
		ClockOff: func(ahead time.Duration) {
			o.logger.Warn("this machine's clock is off the other nodes' clocks: set it", "ahead", ahead)
		},
		ClockSet: func(ahead time.Duration) {
			o.logger.Warn("this machine's clock was set while the node ran; windows pass by the time that has gone by, "+
				"and the new time is taken over slowly, or when the node is started again", "shard", id, "ahead", ahead)
		},
		ClockWrong: func(ahead time.Duration) { o.clockWrong(id, ahead) },
		HandOver:   func(reason string) { o.handOver(id, reason) },
		Happened:   o.bus.Changed,
	}
}

// clockWrong stops the node if most voters' clocks disagree with its own. A majority is needed because, while some are
// not heard, one wrong clock makes the others look wrong.
func (o *replicaObserver) clockWrong(id shard.ID, ahead time.Duration) {
	voters, against := o.view.voterNodes(id), 0
	for _, voter := range voters {
		if off, ok := o.peers.offset([]string{voter}); ok && voter != o.node && off.Abs() > clockWrongMost {
			against++
		}
	}
	if against > len(voters)/2 {
		o.fail(clockWrongError(ahead))
	}
}

// clockWrongMost is how far a clock may be off another one that is taken for right (R18).
const clockWrongMost = 10 * time.Second

func clockWrongError(ahead time.Duration) error {
	return fmt.Errorf("this machine's clock is %v ahead of the other nodes' clocks (behind, if negative): "+
		"set the clock and start again", ahead)
}

func timeStepError(id shard.ID, last, now limit.Time) error {
	return fmt.Errorf("shard %s's time stopped at %s and this machine's clock says %s: if the clock is right, start "+
		"once with --accept-time; a wrong one would let every window pass", id,
		time.UnixMicro(int64(last)).UTC().Format(time.RFC3339), time.UnixMicro(int64(now)).UTC().Format(time.RFC3339))
}
