package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// want asks for a number of shards.
func (c *trio) want(shards uint32) {
	c.t.Helper()
	err := c.nodes[0].view.changeTable(c.t.Context(), func(t *placement.Table) *placement.Table { return t.ApplyWanted(shards) })
	if err != nil {
		c.t.Fatal(err)
	}
}

// evenOver awaits that as many shards share all slots, as each node knows.
func (c *trio) evenOver(shards uint32) {
	c.t.Helper()
	await.Until(c.t, fmt.Sprint("slots on ", shards, " shards"), func() bool {
		for _, n := range c.nodes {
			t := n.view.newestTable()
			if t.Shards < shards || t.WantedShards() != shards {
				return false
			}
			for id := range t.Shards {
				if owned := t.Slots.Owned(id); len(t.Moves) > 0 || id < shards && owned < slot.Count/int(shards) || id >= shards && owned > 0 {
					return false
				}
			}
		}
		return true
	})
}

// TestALaterGroupIsFoundedByItsNodes: it has an owner on each of its nodes' say, and all of its replicas are in it.
func TestALaterGroupIsFoundedByItsNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 1)
		c.want(3)
		c.await("three shards with three voters each", func(s api.ClusterStatus) bool {
			return len(s.Shards) == 4 && atRestOf(3, s.Shards)
		})
	})
}

func atRestOf(voters int, shards []api.ShardStatus) bool {
	for _, s := range shards {
		if s.Owner == "" || len(s.Replicas) != voters {
			return false
		}
		for _, r := range s.Replicas {
			if !r.Known || r.Role != "voter" || r.Lost {
				return false
			}
		}
	}
	return true
}

// TestASlotIsTakenInTime: the time of the slot does not jump ahead by more than a failover may let it.
func TestASlotIsTakenInTime(t *testing.T) {
	var asked shard.Request
	v := &mover{submit: func(_ context.Context, _ shard.ID, requests []shard.Request) []shard.Result {
		asked = requests[0]
		return shard.RefuseAll(1, &shard.Error{Code: shard.TooLate})
	}}
	d := &moveDrive{mover: v, from: &shard.SlotStatus{State: shard.SlotFrozen}, to: &shard.SlotStatus{Ended: true}, fromTime: 5_000_000}
	if _, err := d.take(t.Context(), moverStep{step: shard.MoveTake}); err == nil || asked.NotAfter != 5_400_000 {
		t.Errorf("%+v, error %v", asked, err)
	}
}

// TestSlotsMoveUnderLoad: up to three shards and down to two, no request fails, and every unit is counted once.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 1)
		crowd := newCrowdEvery(t, c, 40*time.Millisecond, 0, 1, 2)
		for _, shards := range []uint32{3, 2} {
			began := time.Now()
			c.want(shards)
			c.evenOver(shards)
			t.Logf("%d shards after %v", shards, time.Since(began))
		}
		crowd.goesHome(0)
	})
}
