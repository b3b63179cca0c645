package routing

import (
	"context"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Config connects a Router to the rest of the node. Any number of goroutines call its functions, nearly all of them for
// every request: they must be quick and never block. EndElsewhere alone may wait.
type Config struct {
	Node string // id of this node
	// Slots returns the shard of each slot, and the number of data shards. It returns nil and 0 while the table is
	// unknown; requests then wait.
	Slots func() (slots *slot.Map, shards uint32)
	// Places returns the nodes of the group's voters according to the table, which may include this node. The list is
	// not changed afterwards.
	Places func(id shard.ID) []string
	// Local returns this node's actor of the shard, or nil, and whether the actor has an epoch open.
	Local func(id shard.ID) (owner Owner, open bool)
	// Leader returns the node of the Raft leader as our own replica knows it, or "" if unknown, or if there is no
	// replica here.
	Leader func(id shard.ID) string
	// Forward reaches other nodes. It may be nil if Leader, Hints and Places never name another node.
	Forward Forwarder
	Hints   *gossip.Hints // required; their news go to this Router alone
	// Sessions reports whether requests to the shard travel in sessions, that is, whether its group has more than one
	// replica.
	Sessions func(id shard.ID) bool
	// Policies returns the policies in force as far as this node knows, or nil while none are known. They determine
	// which denials may be repeated here, and which leases it takes. A nil function knows none.
	Policies func() *policy.Revision
	// Repeated receives each answer that is given here without asking the owner, with its request: a denial that is
	// repeated, or an admission from a lease. It must keep neither. nil disables it.
	Repeated func(*shard.Request, *shard.Decision)
	// EndElsewhere has the other nodes return their leases of a key, for a change of it by hand. Without a policy the key
	// is forgotten. It waits for a moment at most: a lease that is not returned lives to its end. nil: there are no
	// other nodes.
	EndElsewhere func(namespace, policy, key string)
	// Whole means that the other nodes find the shards of a request themselves, and coordinate it where these are
	// several: this process is an edge, and its Places, whatever the shard, are nodes that it may ask.
	Whole bool
	// Ahead returns how far a test has moved shard time ahead of the machine's clock; it must not shrink. nil means 0.
	Ahead func() time.Duration
	// Slept returns how long the machine has been asleep so far, which time.Since may not count. nil means never.
	Slept func() time.Duration
	// Now is the wall clock of this node. nil means the machine's.
	Now func() time.Time
}

// setDefaults replaces the optional functions that are nil.
func (c *Config) setDefaults() {
	none := func() time.Duration { return 0 }
	if c.Policies == nil {
		c.Policies = func() *policy.Revision { return nil }
	}
	if c.Repeated == nil {
		c.Repeated = func(*shard.Request, *shard.Decision) {}
	}
	if c.EndElsewhere == nil {
		c.EndElsewhere = func(string, string, string) {}
	}
	if c.Ahead == nil {
		c.Ahead = none
	}
	if c.Slept == nil {
		c.Slept = none
	}
	if c.Now == nil {
		c.Now = func() time.Time { return time.Now().Add(c.Ahead()) }
	}
}

// Owner decides requests of one shard: the shard's actor in this process.
type Owner interface {
	// Submit returns one result for each request, in their order. It may be called concurrently.
	Submit(ctx context.Context, requests []shard.Request) []shard.Result
}

// Forwarder sends requests for one shard to another node, which decides them. A Hop is one.
type Forwarder interface {
	Submit(ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request) []shard.Result
}
