package node

import (
	"context"
	"time"

	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// dischargeEvery is how often an owner looks for what its shard owes other shards for operations on several shards:
	// when a hold has ended, shards that were told how long to wait ask again.
	dischargeEvery = 50 * time.Millisecond
	// dischargeAgain is the pause after a round that left something undone.
	dischargeAgain = 500 * time.Millisecond
	// dischargeWithin bounds one round: a shard that cannot be reached is asked again in the next.
	dischargeWithin = 3 * time.Second
	// dischargeMost bounds the operations of one round.
	dischargeMost = 1000
)

// debts settles what shards that are owned here owe other shards. It holds no state; only the reconciler calls it.
type debts struct {
	now      func() time.Time
	router   *routing.Router
	slots    func() *slot.Map // never nil here: where a data shard has a replica, the table is known
	tasks    *tasks
	stopping func() bool // whether this node stops
}

// discharge does what the shard owes other shards, if it is owned here. A leg asks home when its coordinator fell
// silent or its hold has ended; home tells legs that have not heard. What is owed to one shard is one task of the
// reconciler's, and Close waits for it. A shard that does not answer delays no other.
func (d *debts) discharge(r *replica) {
	if r.Shard == shard.System || !r.actor.Open() || d.stopping() {
		return
	}
	now, slots := d.now(), d.slots()
	var duties []shard.Duty
	r.group.View(func(s *shard.State) {
		duties = s.Duties(max(s.Time(), limit.Time(now.UnixMicro())), dischargeMost)
	})
	places := make(map[shard.ID][]shard.Duty)
	for _, duty := range duties {
		to := shard.ID(slots[duty.To])
		places[to] = append(places[to], duty)
	}
	for to, duties := range places {
		d.tasks.start("operations of "+r.Shard.String()+" with "+to.String(), func(ctx context.Context) {
			within, cancel := context.WithTimeout(ctx, dischargeWithin)
			defer cancel()
			if !d.router.Discharge(within, duties) {
				sleep.For(ctx, dischargeAgain)
			}
		})
	}
}
