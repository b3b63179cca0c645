package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/grpc"

	"github.com/stint-io/stint/api/gates"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// API is all the entry points of one node. It is an http.Handler: Connect, gRPC and gRPC-Web with binary and JSON
// messages, health and reflection, /healthz, /readyz, /metrics, /openapi.yaml and the dashboard at /ui/. NewGRPC serves
// gRPC alone on a second port.
type API struct {
	http     http.Handler // of the port
	local    http.Handler // of the socket: it keeps out no web pages, and no call waits for the tokens
	registry *registry    // also for NewGRPC
	health   health
	gates    *gates.Gates
	draining context.Context // ends when the streams must end
	drain    context.CancelFunc
	readers  sync.WaitGroup // one for each open reader of a stream
	edges    atomic.Int64   // that are connected
}

// New makes the API, which may be used concurrently.
func New(c Config) *API {
	if c.Shards == nil {
		c.Shards = func() int { return 0 }
	}
	id := func(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
		return idOf(c.sealer(), policies, r, d)
	}
	reports := reporter{c.Listeners, c.policies, id}
	g := newGatekeeper(&c, reports)
	// Everything below must reach the Decider through this one.
	decider := keyHasher{changeLogger{c.Decider, c.Logger}, c.Keys, c.policies}
	//mutant:decider-without-key-hash //mutant:stale-read-without-key-hash
	c.Decider, c.Stale = decider, decider.stale(c.Stale)
	d := &registry{gate: g, mux: http.NewServeMux(), services: make(map[string]*grpc.ServiceDesc)}
	a := &API{registry: d, health: health{ready: c.Ready}}
	a.draining, a.drain = context.WithCancel(context.Background())
	limits := limitService{&c}
	limits.register(d)
	envoyService{limits}.register(d)
	checkStreamService{limits: limits, gate: g, draining: a.draining, readers: &a.readers}.register(d)
	others := d.passing(&c)
	policyService{&c}.register(others)
	observeService{&c}.register(others)
	watchService{Config: &c, gate: g, draining: a.draining,
		open: connlimit.NewBound[string](watchesMost)}.register(d)
	edgeService{limits, g, a.draining, &a.readers, &a.edges}.register(d)
	clusterService{cluster: c.Cluster, gate: g, logger: c.Logger}.register(others)
	tokenService{tokens: c.Tokens}.register(others)
	secretService{secrets: c.Secrets}.register(others)
	sinkService{&c}.register(others)
	logLevel{level: c.LogLevel, logger: c.Logger}.register(d)
	if c.TestClock != nil {
		testClockService{c.TestClock}.register(d)
	}
	a.registerOthers(c.Metrics)
	g.ops["/metrics"] = auth.Observe
	a.gates = c.gates(limits, reports)
	extAuthzService{a.gates}.register(d)
	g.ops[gates.Prefix] = auth.Check
	inside := g.keepOut(a.gates.Before(d.mux))
	a.http = g.await(newBrowsers(c.Hosts, g).keepOut(bound(inside, c.Port, &g.admission)))
	a.local = bound(inside, auth.Local, &g.admission)
	return a
}

// gates makes the gates. They check through the handlers of the calls.
func (c *Config) gates(limits limitService, reports reporter) *gates.Gates {
	return gates.New(gates.Config{
		Policies: c.policies,
		Check: func(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
			if err := enter(ctx, m); err != nil {
				return nil, err
			}
			for {
				answer, err := limits.check(ctx, m)
				if !awaitsAdoption(ctx, err) { //mutant:gate-outruns-its-policies
					return answer, err
				}
			}
		},
		CodeOf: codeOf,
		Ended: func(ctx context.Context, gate, code string, begun time.Time) {
			reports.ended(exchangeOf(ctx), gate, code, begun, nil)
		},
		Keys:   c.KeySources,
		Logger: c.Logger,
	})
}

// registerOthers serves everything besides stint's procedures: health, reflection and pages.
func (a *API) registerOthers(metrics http.Handler) {
	mux := a.registry.mux
	mux.Handle(grpchealth.NewHandler(a.health, gzipped))
	reflector := grpcreflect.NewStaticReflector(
		stintv1connect.LimitServiceName, stintv1connect.PolicyServiceName, stintv1connect.ClusterServiceName,
		stintv1connect.ObserveServiceName, stintv1connect.TokenServiceName, stintv1connect.SecretServiceName,
		stintv1connect.SinkServiceName, envoyServiceName, extAuthzServiceName, grpchealth.HealthV1ServiceName)
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

// Local serves the socket in the data directory. Every caller there may do everything.
func (a *API) Local() http.Handler { return a.local }

// Edges returns how many edges are connected. It may be called concurrently.
func (a *API) Edges() int { return int(a.edges.Load()) }

// PrepareGates prepares the gates of the policies in force, so that the keys that verify their tokens are loaded before
// the first request; otherwise the first request loads them. It may be called concurrently.
func (a *API) PrepareGates() { a.gates.Prepare() }

// Drain ends every present and future stream: batches that were read are answered, then the stream ends as unavailable.
// Unary calls go on. Drain does not wait for the streams.
func (a *API) Drain() { a.drain() }

// Wait returns when no stream is being read and nothing runs in the background. Call it after Drain, when the servers
// are closed.
func (a *API) Wait() {
	a.readers.Wait()
	a.gates.Close()
}
