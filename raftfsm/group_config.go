package raftfsm

import (
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// Timing. A follower with heartbeats that wait behind a slow fsync must not start an election, so heartbeatTimeout is
// far above a disk's slow moments. After the loss of a leader both survivors must miss its heartbeats before one is
// elected, so service is back after about five of these timeouts, unless they know that its process has died
// (Group.Succeed). The election timeout and the leader lease are the same. A lone voter waits for no other member and
// elects itself at once (GroupConfig.Lone).
const (
	heartbeatTimeout     = 650 * time.Millisecond
	loneHeartbeatTimeout = 50 * time.Millisecond
	// commitTimeout is for raft's own word on what is committed, which heartbeats tell sooner (transport.heartbeat),
	// and for sending entries again that were lost, which the transport does sooner (transport.replicate).
	commitTimeout = time.Second
)

// The log. Followers that lag less than trailingEntries catch up from it. A smaller number would run into
// hashicorp/raft issue 697.
const trailingEntries = 4096

// GroupConfig configures OpenGroup.
type GroupConfig struct {
	Replica Replica // created before by CreateGroup
	// Lone says that, by the cluster's table, the replica is the group's only voter: it waits for no other member and
	// elects itself at once. It is refused when the log names several voters. The group must be shut down and opened
	// without Lone before it gets a second voter.
	Lone bool
	// Stream reaches the other members. Its Addr must be the replica's name. The group closes it.
	Stream StreamLayer
	// OnLeadership is called by one goroutine after this replica may have gained or lost the leadership. It is a hint:
	// ask Leading. It may be called too often, and two changes may result in one call. It may be nil.
	OnLeadership func()
	Observer     Observer
	// SnapshotEvery is for simulations, with their short logs: the number of entries after which a snapshot is written;
	// a quarter of them stay in the log. 0: a snapshot is written when replaying the log would take longer than
	// restoring.
	SnapshotEvery uint64
}

// trailing is the number of entries that stay in the log behind a snapshot.
func (c *GroupConfig) trailing() uint64 {
	if c.SnapshotEvery > 0 {
		return c.SnapshotEvery / 4
	}
	return trailingEntries
}

// Observer receives the events of a group. Its functions must not block; nil functions are not called. They may be
// called concurrently.
type Observer struct {
	// Appended is called when a batch of log entries was written and fsynced. took is from the write to the end of its
	// fsync.
	Appended func(took time.Duration, entries int)
	// Applied is called when an entry was installed into the shard's state, or dropped by its fence (Outcome.Dropped).
	Applied func(shard.Outcome)
	// Diverged is called when a snapshot was due and the records in memory differ from those that were installed. The
	// snapshot is not written. The state cannot be trusted; the log can.
	Diverged func(error)
}

// electionTimeout is also the group's heartbeat timeout and its leader lease.
func (g *Group) electionTimeout() time.Duration {
	if g.cfg.Lone {
		return loneHeartbeatTimeout
	}
	return heartbeatTimeout
}

func raftConfig(name string, timeout time.Duration, logger raftLogger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(name)
	c.Logger = logger
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = timeout, timeout, timeout
	c.CommitTimeout = commitTimeout
	c.BatchApplyCh = false // a buffered proposal could enter the log after its enqueue timeout was reported
	c.ShutdownOnRemove = false
	c.SnapshotThreshold = math.MaxUint64 // this package decides when (snapshotWhenDue)
	c.TrailingLogs = trailingEntries
	c.NoLegacyTelemetry = true
	return c
}
