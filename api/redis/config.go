package redis

import (
	"log/slog"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/shard"
)

// Config is the server's dependencies. All fields are required except Listeners, Tracer, Version and ConnectionsMost.
type Config struct {
	Router Router
	// Keys returns the hasher of a namespace's keys, or nil if they are plain, and the version of the policies that
	// define this. It fails if this node does not have the secret.
	Keys func(namespace string) (*keyhash.Namespace, uint64, *shard.Error)
	// Guard authenticates connections and decides what they may do.
	Guard *auth.Guard
	// Port says from where the port can be reached.
	Port auth.Port
	// Parents returns an entry followed by the entries that are decided together with it because its policy has a
	// parent, and the version of the policies that define this.
	Parents func(shard.Entry) ([]shard.Entry, uint64, error)
	// Copies returns the number of nodes, besides the owner, that have a result on disk before it is answered.
	Copies func() int
	Ready  func() error // returns nil if the node can serve every shard, else the reason
	// Connections is called with the number of open connections. It must not block.
	Connections func(open int)
	// Listeners get the event of each round. They include the Tracer if it is set.
	Listeners decisions.Listeners
	Logger    *slog.Logger
	// Tracer traces rounds; nil disables tracing.
	Tracer  *trace.Tracer
	Now     func() time.Time // for expiry times only: the server's own times are those of time.Now
	Version string           // of stint, shown by INFO
	// ConnectionsMost is the listener's bound, shown by INFO. A refused connection should get Refusal.
	ConnectionsMost int
	// RequestTimeout bounds every command.
	RequestTimeout time.Duration
}
