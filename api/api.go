package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/stint-io/stint/api/gates"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Decider decides requests, wherever their keys live. It may be called concurrently.
type Decider interface {
	// Decide returns one result for each request, in their order. If ctx ends before the decision, the result says
	// whether the request may have been counted.
	Decide(ctx context.Context, requests []shard.Request) []shard.Result
}

// Config has the parts that the API needs. All fields are required except Keys, Cluster, Tokens, Secrets, Sinks, Top, Shards, Stale, Sealer,
// NewestSealer, TestClock, Listeners, Bus, Watcher, Hosts, Tracer, LogLevel and RequestTimeout.
type Config struct {
	Decider Decider
	// Keys returns what hashes the keys of a namespace; nil: no namespace has any that are hashed.
	Keys KeysOf
	// Guard says who sent a request and what they may do; nil: everybody may do everything, as in a test.
	Guard *auth.Guard
	// Port is who can reach the port that the API answers at.
	Port auth.Port
	// Tokens makes and ends tokens; nil: these calls are unavailable.
	Tokens TokenAdmin
	// Secrets changes the secrets that ids are sealed with; nil: these calls are unavailable.
	Secrets SecretAdmin
	// KeySources reaches the addresses of keys (JWKS) that gates name; nil: any address.
	KeySources http.RoundTripper
	// Sinks makes and ends the places that events go to; nil: these calls are unavailable.
	Sinks SinkAdmin
	// Revision returns the policies in force as this node knows them; nil or version 0: none yet.
	Revision func() *policy.Revision
	// Cluster answers calls about more than this node; nil: these calls are unavailable.
	Cluster ClusterAdmin
	// Top knows the keys that stand out; nil: calls about them are unavailable.
	Top TopReader
	// Shards returns the number of shards, all of which Audit asks; 0, and without the function: not known.
	Shards func() int
	// Slots returns the shard of each slot; nil if Shards returns 0.
	Slots func() *slot.Map
	// Stale answers a Get from the replicas of this node and returns the greatest possible age of the answer; ok is false
	// if a replica is missing here. nil: there are no replicas.
	Stale func(shard.Request) (d shard.Decision, behind time.Duration, ok bool)
	// Sealer returns the sealer of hold and decision ids. If it is nil or returns nil, there are no ids and nothing can
	// be settled.
	Sealer func() *shard.Sealer
	// NewestSealer asks the cluster for its newest secrets, and returns the sealer that has them. It is asked about ids that name a
	// secret which Sealer does not have yet. nil: those are unavailable.
	NewestSealer func(context.Context) (*shard.Sealer, error)
	// TestClock moves the server's clock, in tests only; nil: there is no such call.
	TestClock TestClock
	Ready     func() error // nil if the node can serve every shard, else the reason why not
	// Listeners get the event of each call. The tracer and the bus are among them, or get none.
	Listeners decisions.Listeners
	// Bus is where decisions are watched; nil: they cannot be.
	Bus *decisions.Bus
	// Watcher has the decisions of other nodes; nil: there are none.
	Watcher Watcher
	Logger  *slog.Logger // nil: nothing is logged
	// Tracer follows calls; nil: none are.
	Tracer *trace.Tracer
	// LogLevel is that of the Logger, for /log-level; nil: there is no such path.
	LogLevel *slog.LevelVar
	Metrics  http.Handler // answers /metrics
	// Hosts are further names under which clients reach this server, besides addresses and names without a dot. A request
	// under another name is refused, because a web page may have sent it.
	Hosts []string
	// RequestTimeout bounds calls without a deadline of their own. 0: 5 s.
	RequestTimeout time.Duration
}

// revision returns the policies in force; nil: none are known.
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

// API has all the entry points of one node. It is an http.Handler: Connect, gRPC and gRPC-Web with binary and JSON
// messages, health and reflection, /healthz, /readyz, /metrics, /openapi.yaml and the dashboard at /ui/. NewGRPC makes a second
// door for gRPC alone.
type API struct {
	http     http.Handler
	local    http.Handler
	registry *registry
	health   health
	gates    *gates.Gates
	draining chan struct{} // closed when the streams must end
	drain    sync.Once
	readers  sync.WaitGroup // one for each stream that is read
}

// New makes the API. It may be used concurrently.
func New(c Config) *API {
	c.setDefaults()
	id := func(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
		return idOf(c.sealer(), policies, r, d)
	}
	reports := reporter{c.Listeners, c.policies, id}
	room := &admission{}
	g := newGatekeeper(&c, room, reports)
	// Nothing below may reach the Decider in another way.
	edge := keyEdge{deeds{c.Decider, g.logger}, c.Keys, c.policies}
	//mutant:decider-without-key-hash //mutant:stale-read-without-key-hash
	c.Decider, c.Stale = edge, edge.stale(c.Stale)
	d := newRegistry(interceptors{reports, c.RequestTimeout}, g, room)
	a := &API{registry: d, health: health{ready: c.Ready}, draining: make(chan struct{})}
	limits := limitService{
		decider:      c.Decider,
		keys:         c.Keys,
		policies:     c.policies,
		sealer:       c.sealer,
		newestSealer: c.NewestSealer,
		stale:        c.Stale,
		shards:       c.Shards,
		slots:        c.Slots,
		cluster:      c.Cluster,
	}
	limits.register(d)
	envoyService{limits}.register(d)
	streams{limits: limits, interceptors: d.interceptors, gate: g, admission: room, draining: a.draining, readers: &a.readers}.register(d)
	policyService{revision: c.revision, policies: c.policies, cluster: c.Cluster, decider: c.Decider}.register(d)
	observeService{decider: c.Decider, policies: c.policies, keys: c.Keys, shards: c.Shards, slots: c.Slots,
		cluster: c.Cluster, keysTop: c.Top}.register(d)
	watchService{
		bus:          c.Bus,
		watcher:      c.Watcher,
		top:          c.Top,
		keys:         c.Keys,
		gate:         g,
		interceptors: d.interceptors,
		draining:     a.draining,
		open:         &watching{},
	}.register(d)
	clusterService{cluster: c.Cluster}.register(d)
	tokenService{tokens: c.Tokens}.register(d)
	secretService{secrets: c.Secrets}.register(d)
	sinkService{sinks: c.Sinks, cluster: c.Cluster, decider: c.Decider, shards: c.Shards}.register(d)
	logLevel{level: c.LogLevel, logger: g.logger}.register(d)
	if c.TestClock != nil {
		testClockService{c.TestClock}.register(d)
	}
	a.registerOthers(c.Metrics)
	g.ops["/metrics"] = auth.Observe
	a.gates = c.gates(limits, reports, g.logger)
	g.ops[gates.Prefix] = auth.Check
	inside := g.keepOut(a.gates.Before(d.mux))
	a.http = g.await(newBrowsers(c.Hosts, g).keepOut(bound(inside, c.Port, room)))
	a.local = bound(inside, auth.Local, room)
	return a
}

// gates makes the gates, whose checks are those of the calls.
func (c *Config) gates(limits limitService, reports reporter, logger *slog.Logger) *gates.Gates {
	return gates.New(gates.Config{
		Policies: c.policies,
		Check: func(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
			if err := enter(ctx, m); err != nil {
				return nil, err
			}
			return limits.check(ctx, m)
		},
		CodeOf: codeOf,
		Ended: func(ctx context.Context, gate, code string, begun time.Time) {
			reports.ended(exchangeOf(ctx), gate, code, begun, nil, nil)
		},
		Keys:   c.KeySources,
		Logger: logger,
	})
}

// setDefaults sets the parts that may be left out.
func (c *Config) setDefaults() {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = requestTimeoutDefault
	}
	if c.Keys == nil {
		c.Keys = plainKeys
	}
	if c.Shards == nil {
		c.Shards = func() int { return 0 }
	}
}

// registerOthers serves what is no procedure of stint: health, reflection and pages.
func (a *API) registerOthers(metrics http.Handler) {
	mux := a.registry.mux
	mux.Handle(grpchealth.NewHandler(a.health, gzipped))
	reflector := grpcreflect.NewStaticReflector(
		stintv1connect.LimitServiceName, stintv1connect.PolicyServiceName, stintv1connect.ClusterServiceName,
		stintv1connect.ObserveServiceName, stintv1connect.TokenServiceName, stintv1connect.SecretServiceName, stintv1connect.SinkServiceName,
		envoyServiceName, grpchealth.HealthV1ServiceName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, gzipped))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, gzipped))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", a.health.readyz)
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /openapi.yaml", serveOpenAPI)
	mux.Handle("GET "+uiPath, serveUI())
	mux.Handle("GET /{$}", http.RedirectHandler(uiPath, http.StatusFound))
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.http.ServeHTTP(w, r) }

// Local is the API for the socket in the data directory: whoever reaches that may do everything.
func (a *API) Local() http.Handler { return a.local }

// PrepareGates makes the gates of the policies in force ready, so that the keys of their tokens are there before the first request.
// Without it the first request does so. It may be called concurrently.
func (a *API) PrepareGates() { a.gates.Prepare() }

// Drain ends every present and future stream: the batches that were read are answered, then the stream is unavailable.
// Unary calls go on. Drain does not wait for the streams.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// Wait returns when no stream is read any longer, and nothing runs in the background. Call it after Drain, when the servers are
// closed.
func (a *API) Wait() {
	a.readers.Wait()
	a.gates.Close()
}
