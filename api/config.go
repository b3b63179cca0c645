package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Config is the API's dependencies. All fields are required except Top, Shards, Stale, Sealer, NewestSealer,
// KeySources, Document, Upstream, EndLeases, TestClock, Listeners, Watcher, Hosts, Tracer and LogLevel. An edge
// (Upstream) also requires EndLeases, but none of Slots, Cluster, Tokens, Secrets and Sinks, as nodes answer the calls
// that need them. All functions and interfaces are called concurrently.
type Config struct {
	// Decider decides the requests of all calls. New puts the hashing of keys and the log of changes before it.
	Decider Decider
	// Keys returns the hasher of a namespace's keys.
	Keys KeysOf
	// Guard authenticates callers and decides what they may do.
	Guard *auth.Guard
	// Port says from where the port that serves the API can be reached.
	Port auth.Port
	// Tokens creates and revokes tokens.
	Tokens TokenAdmin
	// Secrets changes the secrets that seal ids.
	Secrets SecretAdmin
	// KeySources fetches the key sets (JWKS) that gates name; nil allows any address.
	KeySources http.RoundTripper
	// Sinks creates and deletes event sinks.
	Sinks SinkAdmin
	// Revision returns the policies in force as this node knows them; nil or version 0 means none yet.
	Revision func() *policy.Revision
	// Cluster answers calls about more than this node.
	Cluster ClusterAdmin
	// Top ranks the busiest keys; nil makes these calls unavailable.
	Top TopReader
	// Shards returns the number of shards, which calls such as Audit ask one by one. nil, or 0, means that it is not
	// known.
	Shards func() int
	// Slots returns the shard of each slot, or nil while Shards returns 0.
	Slots func() *slot.Map
	// Stale answers a Get from this node's replicas and returns the greatest possible age of the answer; ok is false if
	// a replica is missing here. nil disables stale reads.
	Stale func(shard.Request) (d shard.Decision, behind time.Duration, ok bool)
	// Sealer returns the sealer of hold and decision ids. If it is nil or returns nil, there are no ids and nothing can
	// be settled.
	Sealer func() *shard.Sealer
	// NewestSealer fetches the cluster's newest secrets and returns their sealer. It is called for ids that name a
	// secret unknown to Sealer. nil makes such ids unavailable.
	NewestSealer func(context.Context) (*shard.Sealer, error)
	// Document returns the newest known version of a document that edges may have, or ok = false. nil admits no edge.
	Document func(name string) (newest shard.Document, ok bool)
	// EndLeases returns the leases of a key that the edge holds (Upstream). Without a policy the key is forgotten.
	EndLeases func(namespace, policy, key string)
	// Upstream reaches the nodes of the cluster that this API is an edge of: they answer what is about more than the
	// use of a key, and a host in the address of a request means nothing. nil: this API is a node's.
	Upstream http.RoundTripper
	// TestClock moves the server's clock, in tests only; nil disables the call.
	TestClock TestClock
	Ready     func() error // returns nil if the node can serve every shard, else the reason
	// Listeners get the event of each call. They include the Bus, and the Tracer if it is set.
	Listeners decisions.Listeners
	// Bus publishes decisions to watchers.
	Bus *decisions.Bus
	// Watcher subscribes to the decisions of other nodes; nil watches this node only.
	Watcher Watcher
	Logger  *slog.Logger
	// Tracer traces calls; nil disables tracing.
	Tracer *trace.Tracer
	// LogLevel is the level of the Logger, served at /log-level; nil disables that path.
	LogLevel *slog.LevelVar
	Metrics  http.Handler // serves /metrics
	// Hosts are further names under which clients reach this server, besides addresses and names without a dot. A
	// request under another name is refused, because a web page may have sent it.
	Hosts []string
	// RequestTimeout bounds calls without a deadline of their own.
	RequestTimeout time.Duration
}

// revision returns the policies in force, or nil if none are known.
func (c *Config) revision() *policy.Revision {
	if r := c.Revision(); r != nil && r.Version > 0 {
		return r
	}
	return nil
}

func (c *Config) sealer() *shard.Sealer {
	if c.Sealer == nil {
		return nil
	}
	return c.Sealer()
}

// policies returns the policies in force, or an empty set of version 0 if none are known.
func (c *Config) policies() *policy.Set {
	if r := c.revision(); r != nil {
		return r.Set
	}
	return noPolicies
}

var noPolicies = policy.NewSet(nil)
