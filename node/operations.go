package node

import (
	"context"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

const (
	// dischargeEvery is how often an owner looks what its shard owes others about operations on several shards.
	dischargeEvery = 500 * time.Millisecond
	// dischargeWithin bounds one round: a shard that nobody reaches is asked again in the next.
	dischargeWithin = 3 * time.Second
	// dischargeMost bounds the operations of one round.
	dischargeMost = 1000
)

// discharge has done what the shard owes others: legs whose coordinator fell silent ask home, home tells legs that have
// not heard. It is a task of the steward's, which Close waits for.
func (n *Node) discharge(r *replica) {
	now := n.config.World.Now()
	if r.Shard == shard.System || now.Sub(r.dischargedAt) < dischargeEvery {
		return
	}
	r.dischargedAt = now
	var duties []shard.Duty
	r.group.View(func(s *shard.State) {
		duties = s.Duties(max(s.Time(), limit.Time(now.UnixMicro())), dischargeMost)
	})
	if len(duties) == 0 {
		return
	}
	n.tasks.start("operations of "+r.Shard.String(), func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, dischargeWithin)
		defer cancel()
		n.router.Discharge(ctx, duties)
	})
}
