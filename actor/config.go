package actor

import (
	"cmp"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Config configures an Actor. A zero value means the default named with the field.
type Config struct {
	MaxBatch int // requests in one batch; 4,096
	SumEvery int // entries between two sum entries; 4,096 (R12)
	// IdleSum is the longest time between two sum entries; 10 s. An idle shard with much to sweep uses OpenEvery.
	IdleSum    time.Duration
	OpenEvery  time.Duration // between two ticks, and so between two tries to open an epoch; 100 ms (R2c)
	OpenWithin time.Duration // how long requests queue for an epoch before they are refused; 1.4 s

	// Bounds on submitted requests without an answer; further ones are refused as Overloaded (R20). An abandoned
	// request counts until the actor has released it.
	MaxQueued      int // 65,536
	MaxQueuedBytes int // an estimate: their keys, policies and ids, and a fixed sum for each; 64 MiB

	// Room returns how much room there is for records. It is asked before each batch, while the state does not change,
	// and must be cheap. nil sets no bound.
	Room func() shard.Room

	// Slots returns the table's shards of all slots, for those of which the shard has no record (shard.Stamp); nil: it
	// has all. It must be cheap. A nil function means the same.
	Slots func() *slot.Map

	Now      func() time.Time // the machine's clock, with its monotonic reading; time.Now
	Observer Observer         // receives measurements and alarms; the zero value receives none

	// Ahead returns how far a test has moved shard time ahead of the reference; it must not shrink. nil means 0.
	Ahead func() time.Duration

	// Policies returns the newest policies that this node knows; nil, or a Version of 0, if it knows none. It must be
	// cheap. A nil function evaluates requests without policies, like those of the system shard.
	Policies func() *policy.Revision

	// Reference returns how far this machine's clock is ahead of the median of the voters' clocks now; ok is false if
	// that was not measured for a majority of them within the last 5 s. It must be cheap. A nil function means that
	// this node is the only voter: its own clock is the reference, and its entries cost little (pace).
	Reference func() (ahead time.Duration, ok bool)

	// Suspended returns how long this machine has been suspended since it was started. The time of an only voter
	// advances by that, and not when its clock is set. nil means unknown, which counts as zero.
	Suspended func() time.Duration

	// Level returns the cluster's feature level, which is stamped on each batch: the batch contains nothing newer. It
	// must be cheap, and must not return more than every voter can read. nil means shard.LevelNewest.
	Level func() shard.Level

	// Stopped returns the reason why this node must not decide although it leads: the shard's records cannot be
	// trusted. It returns nil if there is none. Otherwise requests are refused with this error and never evaluated,
	// while sum entries are still logged. It must be cheap. A nil function never stops the shard.
	Stopped func() *shard.Error

	// Top bounds the memory of the boards of the busiest keys, for all actors that share it. nil disables the board.
	Top *top.Budget

	// Watched reports whether Observer.Happened has a listener. It must be cheap. nil means no.
	Watched func() bool

	// AcceptStep lets an only voter's epoch open more than 24 h past the last stamp (R18).
	AcceptStep bool
}

func (c Config) withDefaults() Config {
	c.MaxBatch = cmp.Or(c.MaxBatch, 4096)
	c.MaxQueued = cmp.Or(c.MaxQueued, 1<<16)
	c.MaxQueuedBytes = cmp.Or(c.MaxQueuedBytes, 64<<20)
	c.SumEvery = cmp.Or(c.SumEvery, 4096)
	c.IdleSum = cmp.Or(c.IdleSum, 10*time.Second)
	c.OpenEvery = cmp.Or(c.OpenEvery, 100*time.Millisecond)
	c.OpenWithin = cmp.Or(c.OpenWithin, 1400*time.Millisecond)
	if c.Stopped == nil {
		c.Stopped = func() *shard.Error { return nil }
	}
	if c.Room == nil {
		c.Room = func() shard.Room { return shard.Room{} }
	}
	if c.Slots == nil {
		c.Slots = func() *slot.Map { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Level == nil {
		c.Level = func() shard.Level { return shard.LevelNewest }
	}
	return c
}
