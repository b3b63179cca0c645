package node

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// replica is one copy of a shard that runs here: its Raft member and its actor. All methods may be called concurrently.
type replica struct {
	raftfsm.Replica
	node  string // this node
	lone  bool   // it is the only one of its group
	group *raftfsm.Group
	actor *actor.Actor

	logger  *slog.Logger
	changed notifier // wakes the reconciler

	stuck atomic.Bool // in a transfer that no node is making: to be reopened (R9)

	diverged atomic.Pointer[string]      // why its records are not those that were installed; nil: none known
	stopped  atomic.Pointer[shard.Error] // why it decides nothing; nil: it decides

	slots *slot.Map // of which owned is known; both belong to the actor's goroutine
	owned int       // slots of the shard; 0 while slots is nil

	elsewhere atomic.Uint32 // the most that other nodes with a copy use of their memory for records, as shard.Use

	agreed atomic.Int64 // when a majority last had a new sum of its, in Unix microseconds; 0: never since it was opened

	// Owned by the reconciler's goroutine.
	judgedAt     time.Time // when its sums were last compared with the others'
	agreedAt     shard.SumAt
	divergedAt   time.Time // when the judge saw that its records are wrong
	leadingSince time.Time // since when it leads without an epoch; zero: it does not lead, or has one
	ownsSince    time.Time // since when it owns the shard, or last tried to hand it to the wanted node

	alignedEpoch uint64 // epoch in which the table was read; owned by the task that aligns the group
}

// name is the replica's name within its group.
func (r *replica) name() string { return r.Name(r.node) }

// diverge notes that the replica's records are not those that were installed. From here on it decides nothing.
func (r *replica) diverge(why string) {
	if !r.diverged.CompareAndSwap(nil, &why) {
		return
	}
	err := &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
		Message: fmt.Sprintf("shard %s: the records in node %s's memory are not what its log says; "+
			"nothing was counted, ask another node", r.Shard, r.node)}
	if r.lone {
		err = &shard.Error{Code: shard.Unavailable, RetryAfter: routing.LongWait,
			Message: fmt.Sprintf("shard %s has stopped: its records in memory are not what its log says, "+
				"and this is its only replica; nothing was counted; stop the node, "+
				"check its memory and start it again: the records are rebuilt from the disk", r.Shard)}
	}
	r.stopped.Store(err)
	r.logger.Error("a replica's records are not what its log says: it no longer decides",
		"replica", r.name(), "why", why)
	r.changed.notify()
}

// dispute stops the shard: its replicas differ, and nothing shows which of them are right.
func (r *replica) dispute(at shard.SumAt) {
	err := &shard.Error{Code: shard.Unavailable, RetryAfter: routing.LongWait,
		Message: fmt.Sprintf("shard %s has stopped: its replicas hold different records at epoch %d, seq %d, "+
			"and no majority of them agrees; nothing was counted; an operator has to choose (docs/operations.md, "+
			"\"A shard has stopped\")", r.Shard, at.Epoch, at.Seq)}
	if r.stopped.CompareAndSwap(nil, err) {
		r.logger.Error("a shard has stopped", "replica", r.name(), "error", err)
	}
}

// settleDispute lets the shard go on once a majority of its replicas agrees.
func (r *replica) settleDispute() {
	stopped := r.stopped.Load()
	// The replica may have diverged meanwhile, by its snapshot: then it has stopped for another reason.
	if stopped != nil && r.diverged.Load() == nil && r.stopped.CompareAndSwap(stopped, nil) {
		r.logger.Info("a shard goes on: a majority of its replicas agrees", "replica", r.name())
	}
}

// report describes the replica to the other nodes.
func (r *replica) report(revision *policy.Revision, room shard.Room) placement.ReplicaReport {
	status := r.group.Status()
	report := placement.ReplicaReport{Shard: r.Shard, Number: r.Number, Leading: status.Leading, Open: r.actor.Open(),
		Commit: status.CommitIndex, Applied: status.AppliedIndex}
	r.group.View(func(s *shard.State) {
		report.Epoch, report.Seq, report.Time, report.Keys = s.Epoch(), s.Seq(), s.Time(), s.Records()
		report.PoliciesVersion, report.Sums = shard.AdoptedVersion(s), s.Sums()
		if report.Open && revision != nil {
			report.NearCap = slices.DeleteFunc(s.CapUses(revision.Set, room), func(u shard.CapUse) bool {
				return !u.Near()
			})
		}
	})
	if stopped := r.stopped.Load(); stopped != nil {
		report.Stopped = stopped.Message
	}
	report.Diverged = r.diverged.Load() != nil
	if !status.Leading {
		return report
	}
	members, _, err := r.group.Members()
	if err != nil {
		return report
	}
	for _, m := range members {
		report.Members = append(report.Members, placement.GroupMember{Name: m.Name, Voter: m.Voter})
	}
	return report
}

// Standing is the state of one replica at one moment.
type Standing struct {
	raftfsm.Replica
	Epoch, Seq uint64     // of the newest entry that it has installed
	Time       limit.Time // shard time of that entry
	Sum        uint64     // the fingerprint: replicas of one shard at one epoch and seq must agree
}
