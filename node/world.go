package node

import (
	"context"
	"crypto/x509"
	"net"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// World replaces parts of the machine, for simulations. Its zero value is the machine.
type World struct {
	Now func() time.Time // the clock, with its monotonic reading
	// how long the machine has been suspended; with Now nil, the machine's
	Slept func() time.Duration
	FS    raftfsm.FS // the file system under the log
	// opens every port, and the socket in the data directory
	Listen func(addr string) (net.Listener, error)
	// connects to other nodes, sinks and the collector of traces
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Gossip func(gossip.Config) (Membership, error) // instead of gossip.Start
	Memory int64                                   // bytes that the process may use; 0: as Memory says
	NoAPI  bool                                    // requests come through Node.Decide only
	// the newest feature level that the binary knows; 0: shard.LevelNewest
	Newest shard.Level

	Sinks SinkWorld // how sinks are reached

	IdleSum time.Duration // the longest time between two sum entries of a shard; 0: actor.Config's
	// SnapshotEvery is raftfsm.GroupConfig's.
	SnapshotEvery uint64
}

// SinkWorld is how a node reaches sinks. Its zero value is what operators get.
type SinkWorld struct {
	Roots   *x509.CertPool // authorities; nil: the system's
	Pace    notify.Pace
	Timeout time.Duration // of a try; 0: notify.Timeout
}
