package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

const (
	// judgeEvery is how often a replica compares its sums with the others': as often as the others are asked for
	// theirs.
	judgeEvery = 500 * time.Millisecond
	// dismissAfter is how long a replica with wrong records waits before it closes. By then the node has heard of
	// others with the same finding, as after a program fault, and a majority stays.
	dismissAfter = 3 * time.Second
	// convictedAgain is the time within which two convictions on one node cause it to be drained.
	convictedAgain = 24 * time.Hour
)

// judge finds replicas of this node with wrong records, and closes them for good. Only the reconciler calls it, except
// for drainIfAgain.
type judge struct {
	node     string // id of this node
	now      func() time.Time
	dir      *dataDir
	view     *clusterView
	replicas *replicaSet
	peers    *peers
	opener   *opener
	handover *handover
	logger   *slog.Logger
	changed  notifier
	throttle loglimit.Limit
}

// look compares a replica's sums with the other voters' (R12), and closes it if its records are wrong. It reports
// whether the replica is gone.
func (j *judge) look(ctx context.Context, r *replica) (gone bool, err error) {
	if now := j.now(); now.Sub(r.judgedAt).Abs() >= judgeEvery {
		r.judgedAt = now
		verdict, at := placement.Judge(j.testimonies(r))
		switch verdict {
		case placement.Convicted: //mutant:no-conviction
			r.diverge(fmt.Sprintf("at epoch %d, seq %d its records had the sum %016x, and those of a majority another",
				at.Epoch, at.Seq, at.Sum))
		case placement.Disputed: //mutant:no-majority-goes-on
			r.dispute(at)
		case placement.Agreed:
			if at != r.agreedAt { // a sum that was not seen before: the replicas go on comparing
				r.agreedAt = at
				r.agreed.Store(r.judgedAt.UnixMicro())
			}
			r.settleDispute()
		}
	}
	return j.lookAtDiverged(ctx, r)
}

// testimonies returns the arguments of placement.Judge: this replica's name, the voters, and their last reports.
func (j *judge) testimonies(r *replica) (self string, voters []string, said map[string]placement.Testimony) {
	self = r.name()
	g := j.view.newestTable().Group(r.Shard)
	if g == nil {
		return self, nil, nil
	}
	voters, said = testify(g, j.peers.reports())
	r.group.View(func(s *shard.State) {
		said[self] = placement.Testimony{Epoch: s.Epoch(), Seq: s.Seq(), Sums: s.Sums()}
	})
	return self, voters, said
}

// testify lists the voters of a group and the reports of those that can testify. A lost replica no longer reports, but
// it still counts toward the majority until the group goes on without it.
func testify(
	g *placement.Group, reports map[string]placement.Report,
) (voters []string, said map[string]placement.Testimony) {
	said = make(map[string]placement.Testimony)
	for _, voter := range g.Voters() {
		name := voter.Name(g.Shard)
		voters = append(voters, name) //mutant:lost-replica-leaves-the-majority
		told := replicaIn(reports[voter.Node], g.Shard, voter.Number)
		if told != nil && !told.Diverged && !voter.Lost {
			said[name] = placement.Testimony{Epoch: told.Epoch, Seq: told.Seq, Sums: told.Sums}
		}
	}
	return voters, said
}

// replicaIn finds one replica in a report; nil when it is not there.
func replicaIn(report placement.Report, id shard.ID, number uint64) *placement.ReplicaReport {
	i := slices.IndexFunc(report.Replicas, func(r placement.ReplicaReport) bool {
		return r.Shard == id && r.Number == number
	})
	if i < 0 {
		return nil
	}
	return &report.Replicas[i]
}

// lookAtDiverged handles a replica with wrong records: it hands over the group that the replica leads, and closes the
// replica for good when the others have a majority without it. Until then the replica goes on voting: its log is as
// good as the others'.
func (j *judge) lookAtDiverged(ctx context.Context, r *replica) (gone bool, err error) {
	why, now := r.diverged.Load(), j.now()
	if why == nil {
		return false, nil
	}
	if r.divergedAt.IsZero() {
		r.divergedAt = now
	}
	if r.group.Leading() && j.handover.heir(r) != "" {
		j.handover.giveAwaySoon(r.Shard, "its records here are not what its log says")
	}
	if now.Sub(r.divergedAt) < dismissAfter {
		return false, nil
	}
	if err := j.canDoWithout(r); err != nil {
		if mayComplain(&j.throttle, "dismissing "+r.name(), now) {
			j.logger.Error("a replica whose records are wrong cannot be replaced now",
				"replica", r.name(), "error", err)
		}
		return false, nil
	}
	return true, j.dismiss(ctx, r, *why)
}

// canDoWithout says why a group would have no sound majority without one of its replicas; nil: it would have one.
func (j *judge) canDoWithout(r *replica) error {
	members, _, err := r.group.Members()
	if err != nil {
		return err
	}
	voters, sound := 0, 0
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if m.Name != r.name() && j.peers.isSound(r.Shard, m.Name) {
			sound++
		}
	}
	switch {
	case r.lone:
		return errors.New("it is the only one: stop the node, check its memory and start it again")
	case sound <= voters/2: //mutant:convicted-leaves-a-minority
		return fmt.Errorf("of %d voters only %d others answer and are sound: start the nodes that are missing",
			voters, sound)
	}
	return nil
}

// dismiss closes a replica for good: its epoch ends, another voter takes over what it leads, and its stores are kept as
// they are. The table will replace it.
func (j *judge) dismiss(ctx context.Context, r *replica, why string) error {
	now, cancel := context.WithCancel(ctx)
	cancel()
	r.actor.Close(now) // nothing is decided from here on: queued requests are forwarded
	c := raftfsm.Conviction{Why: why, At: j.now()}
	err := j.dir.stores.Convict(r.Replica, c)
	if r.group.Leading() {
		if err := j.handover.transfer(r, j.handover.heir(r)); err != nil {
			j.logger.Warn("a shard could not be handed over before its replica is dismissed",
				"shard", r.Shard, "error", err)
		}
	}
	j.opener.close(now, r)
	j.replicas.noteConvicted(r.Replica, c)
	j.logger.Error("a replica was convicted: it is closed for good, kept on the disk for a week at most, "+
		"and will be replaced under another number; check this machine's memory", "replica", r.name(), "why", why)
	j.changed.notify()
	return diskError(err)
}

// drainIfAgain changes a table in which a replica of this node is marked as lost. If that is the second replica
// convicted within a day, the node must not lead until an operator has looked at it.
func (j *judge) drainIfAgain(t *placement.Table, lost raftfsm.Replica) *placement.Table {
	late := j.replicas.convictions(convictedAgain)
	if _, ok := late[lost]; !ok || len(late) < 2 {
		return t
	}
	listed := t.Node(j.node)
	if listed == nil || listed.State != placement.NodeActive {
		return t
	}
	j.logger.Error("this node is drained: several of its replicas were convicted within a day; " +
		"check its memory, or replace the machine")
	return t.ApplyNodeState(j.node, placement.NodeDraining)
}
