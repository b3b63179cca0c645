package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// handOverWithin bounds a hand-over: requests in flight end, and the new leader is elected.
const handOverWithin = 3 * time.Second

// handover moves the leadership of groups from this node to other voters. The reconciler moves a shard to the node that
// the table wants, replicas give away what they should not own, and a stopping node gives all of them away. It holds no
// state but in the replicas; all methods may be called concurrently, except for those that say otherwise.
type handover struct {
	node     string // id of this node
	now      func() time.Time
	view     *clusterView
	replicas *replicaSet
	peers    *peers
	tasks    *tasks
	logger   *slog.Logger
	changed  notifier
}

// leadWhereWanted hands a shard over to the node that the table wants to lead it, once that node is ready. Only the
// reconciler calls it.
func (h *handover) leadWhereWanted(r *replica) {
	g, now := h.view.newestTable().Group(r.Shard), h.now()
	if g == nil || g.Lead == "" || g.Lead == h.node || now.Sub(r.ownsSince) < handOverPause {
		return
	}
	if to := h.voterOn(r, g.Lead); to != "" && h.peers.isSound(r.Shard, to) && !h.peers.isClockAhead(r.Shard, g.Lead) &&
		h.peers.isCaughtUp(r, to) {
		r.ownsSince = now
		h.tasks.start("hand over "+r.Shard.String(), func(ctx context.Context) {
			h.note(r, g.Lead, h.perform(ctx, r, to))
		})
	}
}

// handOverPause is how long a node owns a shard before it hands it to the wanted node, and the time between two
// attempts: each attempt ends an epoch and delays requests for a moment. A shard that a stopping node gave away must
// not come back before the other nodes know that it stops.
const handOverPause = 3 * time.Second

func (h *handover) note(r *replica, to string, err error) {
	if err != nil {
		h.logger.Warn("a shard could not be handed over", "shard", r.Shard, "to", to, "error", err)
		return
	}
	h.logger.Info("handed over", "shard", r.Shard, "to", to)
}

// giveAwaySoon gives a shard away that this node should not own, for example because its clock is ahead.
func (h *handover) giveAwaySoon(id shard.ID, reason string) {
	r := h.replicas.of(id)
	if r == nil {
		return
	}
	h.tasks.start("hand over "+id.String(), func(ctx context.Context) {
		h.logger.Warn("handing a shard over", "shard", id, "reason", reason)
		h.note(r, "", h.perform(ctx, r, ""))
	})
}

// perform stops deciding, lets requests in flight end, and has another voter lead; "" picks the best one. Requests that
// queue meanwhile were not executed; the router forwards them.
func (h *handover) perform(ctx context.Context, r *replica, to string) error {
	if r.lone {
		return errors.New("it is the only replica")
	}
	if to == "" {
		if to = h.heir(r); to == "" {
			return errors.New("no other voter is ready")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	return r.actor.Handover(ctx, func() error { return h.transfer(r, to) })
}

// transfer has another voter lead; "" lets raft choose. The reconciler reopens a group that is stuck in a transfer.
func (h *handover) transfer(r *replica, to string) error {
	err := r.group.Transfer(to)
	if errors.Is(err, raftfsm.ErrStuck) {
		r.stuck.Store(true)
		h.changed.notify()
	}
	return err
}

// heir names the voter that should lead next: one that answers, is not stopping, and has the log. Among those it
// prefers the one that leads the fewest groups.
func (h *handover) heir(r *replica) string {
	g := h.view.newestTable().Group(r.Shard)
	if g == nil {
		return ""
	}
	best, fewest := "", 0
	for _, voter := range g.Voters() {
		name := voter.Name(r.Shard)
		if voter.Node == h.node || !h.peers.isSound(r.Shard, name) || h.peers.isClockAhead(r.Shard, voter.Node) ||
			!h.peers.isCaughtUp(r, name) {
			continue
		}
		if leads := h.peers.leads(voter.Node); best == "" || leads < fewest {
			best, fewest = name, leads
		}
	}
	return best
}

// voterOn names the voter of the replica's shard on a node; "" when there is none.
func (h *handover) voterOn(r *replica, node string) string {
	for _, voter := range h.view.newestTable().Group(r.Shard).Voters() {
		if voter.Node == node {
			return voter.Name(r.Shard)
		}
	}
	return ""
}

// giveAllAway hands over every shard that this node owns before it stops: all at once, each within handOverWithin.
func (h *handover) giveAllAway(ctx context.Context) {
	each(h.replicas.all(), func(r *replica) {
		if r.lone || !r.group.Leading() { //mutant:stop-hands-nothing-over
			return
		}
		for attempt := 0; r.group.Leading() && attempt < 3 && ctx.Err() == nil; attempt++ {
			if err := h.perform(ctx, r, ""); err != nil {
				h.logger.Warn("a shard could not be handed over before stopping", "shard", r.Shard, "error", err)
				sleep.For(ctx, 100*time.Millisecond)
			}
		}
	})
}
