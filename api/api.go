package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Decider decides requests, wherever their keys live. It may be called concurrently.
type Decider interface {
	// Decide returns one result for each request, in their order. When ctx ends before a decision is there, the result
	// says whether the request may have been counted.
	Decide(ctx context.Context, requests []shard.Request) []shard.Result
}

// Observer is told what was answered. It may be called concurrently and must not block.
type Observer interface {
	// Decision is called for each entry of what counts. Outcome is "allowed", "denied", "locked_out" (denied because the key
	// is blocked), "shadow_denied", "counted" (MODE_COUNT), "reserved", or what a settlement did: "committed", "cancelled",
	// "extended", "success" or "failed"; and "replayed" for the answer to an idempotency id that was counted before. The
	// policy of limits that a request brought along is "inline", whatever it calls them.
	Decision(policy, outcome string)
	// Request is called for each call. Code is "ok" or the name of the error's code.
	Request(procedure, code string, took time.Duration)
}

// Config is what the API needs. Every field is required but Cluster, Shards, Sealer and RequestTimeout.
type Config struct {
	Decider Decider
	// Revision is the policies in force as this node knows them; nil or of version 0: it knows none yet.
	Revision func() *policy.Revision
	// Cluster is asked for what concerns more than this node; nil: its calls are answered unavailable.
	Cluster ClusterAdmin
	// Shards is the number of shards, which the audit log asks; nil, or 0: it is not known.
	Shards func() int
	// Sealer makes the ids of holds and decisions; nil, or if it gives nil: they have none, and nothing can be settled.
	Sealer   func() *shard.Sealer
	Ready    func() error // nil when the node can serve every shard, else why it cannot
	Observer Observer
	Metrics  http.Handler // answers /metrics
	// RequestTimeout bounds calls that bring no deadline of their own. 0: 5 s.
	RequestTimeout time.Duration
}

// revision is the policies in force; nil: none are known.
func (c Config) revision() *policy.Revision {
	if r := c.Revision(); r != nil && r.Version > 0 {
		return r
	}
	return nil
}

func (c Config) sealer() *shard.Sealer {
	if c.Sealer == nil {
		return nil
	}
	return c.Sealer()
}

func (c Config) policies() *policy.Set {
	if r := c.revision(); r != nil {
		return r.Set
	}
	return noPolicies
}

var noPolicies = policy.NewSet(nil)

const requestTimeoutDefault = 5 * time.Second

// API is every way into one node. It is an http.Handler: Connect, gRPC and gRPC-Web with binary and JSON messages,
// health and reflection, /healthz, /readyz and /metrics. GRPC is a second door, for gRPC alone.
type API struct {
	http     http.Handler
	doors    *doors
	health   health
	draining chan struct{} // closed when streams are to end
	drain    sync.Once
	readers  sync.WaitGroup // of streams
}

// New makes the ways in. What it returns may be used concurrently.
func New(c Config) *API {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = requestTimeoutDefault
	}
	room := &room{}
	d := newDoors(edge{observer: c.Observer, timeout: c.RequestTimeout}, room)
	a := &API{doors: d, health: health{ready: c.Ready}, draining: make(chan struct{})}
	limits := limitService{decider: c.Decider, policies: c.policies, sealer: c.sealer, observer: c.Observer}
	limits.register(d)
	streams{limits: limits, edge: d.edge, room: room, draining: a.draining, readers: &a.readers}.register(d)
	policyService{revision: c.revision, cluster: c.Cluster, decider: c.Decider}.register(d)
	observeService{decider: c.Decider, shards: c.Shards}.register(d)
	clusterService{cluster: c.Cluster}.register(d)
	d.mux.Handle(grpchealth.NewHandler(a.health, uncompressed))
	reflector := grpcreflect.NewStaticReflector(
		stintv1connect.LimitServiceName, stintv1connect.PolicyServiceName, stintv1connect.ClusterServiceName,
		stintv1connect.ObserveServiceName, grpchealth.HealthV1ServiceName)
	d.mux.Handle(grpcreflect.NewHandlerV1(reflector, uncompressed))
	d.mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, uncompressed))
	d.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	d.mux.HandleFunc("GET /readyz", a.health.readyz)
	d.mux.Handle("GET /metrics", c.Metrics)
	a.http = bound(d.mux, room)
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.http.ServeHTTP(w, r) }

// Drain has every stream end, and those that come after: what was read is answered, then the stream is unavailable.
// Calls of one message go on. It does not wait for the streams.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// Wait returns when nothing of a stream is left. It is called after Drain, when the servers are closed.
func (a *API) Wait() { a.readers.Wait() }

// uncompressed turns gzip off. Messages are a few hundred bytes, which compression makes slower and hardly smaller, and
// a compressed body is a way around the bound on its size.
var uncompressed = connect.WithCompression("gzip", nil, nil)
