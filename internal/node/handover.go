package node

import (
	"context"
	"errors"
	"time"

	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// handOverWithin bounds a hand-over: requests in flight end, and the new leader is elected.
const handOverWithin = 3 * time.Second

// leadWhereWanted hands a shard over to the node that the table wants to lead it, once that node is ready.
func (n *Node) leadWhereWanted(r *replica) {
	t := n.known.newest()
	if t.Table == nil {
		return
	}
	g, now := t.Group(r.Shard), n.config.World.Now()
	if g == nil || g.Lead == "" || g.Lead == n.id || now.Sub(r.ownsSince) < handOverPause {
		return
	}
	if to := n.voterOn(r, g.Lead); to != "" && n.sound(r.Shard, to) && !n.clockIsAhead(r.Shard, g.Lead) && n.caughtUp(r, to) {
		r.ownsSince = now
		n.tasks.start("hand over "+r.Shard.String(), func(ctx context.Context) {
			n.noteHandOver(r, g.Lead, n.handOver(ctx, r, to))
		})
	}
}

// handOverPause is how long a node owns a shard before it hands it to the wanted node, and the time between two attempts:
// each attempt ends an epoch and delays requests for a moment. A shard that a stopping node gave away must not come back
// before the other nodes know that it stops.
const handOverPause = 3 * time.Second

func (n *Node) noteHandOver(r *replica, to string, err error) {
	if err != nil {
		n.config.Logger.Warn("a shard could not be handed over", "shard", r.Shard, "to", to, "error", err)
		return
	}
	n.config.Logger.Info("handed over", "shard", r.Shard, "to", to)
}

// handOverSoon gives a shard away that this node should not own, for example because its clock is ahead.
func (n *Node) handOverSoon(id shard.ID, reason string) {
	r := n.replica(id)
	if r == nil {
		return
	}
	n.tasks.start("hand over "+id.String(), func(ctx context.Context) {
		n.config.Logger.Warn("handing a shard over", "shard", id, "reason", reason)
		n.noteHandOver(r, "", n.handOver(ctx, r, ""))
	})
}

// handOver stops deciding, lets requests in flight end, and has another voter lead; "" picks the best one. Requests that
// queue meanwhile were not executed; the router forwards them.
func (n *Node) handOver(ctx context.Context, r *replica, to string) error {
	if r.lone {
		return errors.New("it is the only replica")
	}
	if to == "" {
		if to = n.heir(r); to == "" {
			return errors.New("no other voter is ready")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	return r.actor.Handover(ctx, func() error { return n.transfer(r, to) })
}

// transfer has another voter lead; "" lets raft choose. The reconciler reopens a group that is stuck in a transfer.
func (n *Node) transfer(r *replica, to string) error {
	err := r.group.Transfer(to)
	if errors.Is(err, raftfsm.ErrStuck) {
		r.stuck.Store(true)
		n.kick()
	}
	return err
}

// heir names the voter that should lead next: one that answers, is not stopping, and has the log. Among those it prefers the
// one that leads the fewest groups.
func (n *Node) heir(r *replica) string {
	t := n.known.newest()
	if t.Table == nil {
		return ""
	}
	best, fewest := "", 0
	for _, voter := range t.Group(r.Shard).Voters() {
		name := voter.Name(r.Shard)
		if voter.Node == n.id || !n.sound(r.Shard, name) || n.clockIsAhead(r.Shard, voter.Node) || !n.caughtUp(r, name) {
			continue
		}
		if leads := n.leads(voter.Node); best == "" || leads < fewest {
			best, fewest = name, leads
		}
	}
	return best
}

// leads counts the groups that a node leads, by its own report.
func (n *Node) leads(node string) (count int) {
	for _, r := range n.probe.Reports()[node].Replicas {
		if r.Leading {
			count++
		}
	}
	return count
}

// ready reports whether a node answers and is fit to lead.
func (n *Node) ready(node string) bool {
	report, ok := n.probe.Reports()[node]
	return ok && report.Fit() && n.probe.Silent()[node] < silentMost
}

// clockAheadMost is less than the lead at which an owner hands a shard over (actor), so that it does not get it back at once.
const clockAheadMost = 300 * time.Millisecond

// clockIsAhead reports whether a node would soon hand the shard over again because its clock is ahead of most voters'.
func (n *Node) clockIsAhead(id shard.ID, node string) bool {
	ofVoters, ok := n.probe.Offset(n.voterNodes(id)) // how far this node's clock is ahead of them
	ofNode, known := n.probe.Offset([]string{node})
	return ok && known && ofVoters-ofNode > clockAheadMost
}

// silentMost is how long a node may be silent and still be taken for alive.
const silentMost = 2 * time.Second

// voterOn names the voter of the replica's shard on a node; "" when there is none.
func (n *Node) voterOn(r *replica, node string) string {
	for _, voter := range n.known.newest().Group(r.Shard).Voters() {
		if voter.Node == node {
			return voter.Name(r.Shard)
		}
	}
	return ""
}

// giveAway hands over every shard that this node owns before it stops: all at once, each within handOverWithin.
func (n *Node) giveAway(ctx context.Context) {
	each(n.replicas(), func(r *replica) {
		if r.lone || !r.group.Leading() {
			return
		}
		for attempt := 0; r.group.Leading() && attempt < 3 && ctx.Err() == nil; attempt++ {
			if err := n.handOver(ctx, r, ""); err != nil {
				n.config.Logger.Warn("a shard could not be handed over before stopping", "shard", r.Shard, "error", err)
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
	})
}
