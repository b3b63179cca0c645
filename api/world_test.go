package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// noon is the shard time of every decision in the tests: 2026-11-21T12:00:00.25Z.
const noon limit.Time = 1_795_262_400_250_000

// world is an API on a real port. Its decider gives the results that the test sets.
type world struct {
	t        *testing.T
	url      string
	grpcAddr string // of grpc-go's door
	api      *API
	decider  *fakeDecider
	observer *fakeObserver
	top      *fakeTop
	ready    error
	cluster  *fakeCluster
	stale    func(shard.Request) (shard.Decision, time.Duration, bool)
	revision *policy.Revision // nil: none known
	sealer   *shard.Sealer    // nil: not known
	newest   *shard.Sealer    // of the cluster; nil: it cannot be asked
	secrets  *fakeSecrets
	sinks    *fakeSinks
	shards   int
	keys     KeysOf // nil: all stay as they are
	bus      *decisions.Bus
	watcher  *fakeWatcher
}

// fakeTokens lets tokens be turned off; nothing else is asked of it.
type fakeTokens struct{ TokenAdmin }

func (fakeTokens) TurnOff(context.Context, string) error { return nil }

var testSealer = shard.NewSealer(1, shard.SealingSecret{Number: 1, Key: [32]byte{1, 2, 3}})

type fakeDecider struct {
	mu      sync.Mutex
	calls   [][]shard.Request
	decide  func(shard.Request) shard.Result
	waiting func(context.Context)
	instead Decider // decides instead, if not nil
}

func (f *fakeDecider) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	if f.instead != nil {
		return f.instead.Decide(ctx, requests)
	}
	if f.waiting != nil {
		f.waiting(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, requests)
	results := make([]shard.Result, len(requests))
	for i, r := range requests {
		results[i] = f.decide(r)
	}
	return results
}

func (f *fakeDecider) requests() []shard.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Concat(f.calls...)
}

type fakeObserver struct {
	mu      sync.Mutex
	lines   []string
	denials []string
}

// Ended implements decisions.Listener.
func (f *fakeObserver) Ended(e *decisions.Event) {
	for _, c := range e.Counted {
		for range c.N {
			f.add("decision " + c.Name + " " + c.Kind)
		}
	}
	e.CountDenials(f)
	f.add("request " + e.Method[strings.LastIndex(e.Method, "/")+1:] + " " + e.Code)
}

// Denied keeps the denials apart: the lines are about calls.
func (f *fakeObserver) Denied(namespace, policy, limit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denials = append(f.denials, namespace+" "+policy+"/"+limit)
}

func (f *fakeObserver) add(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
}

func (f *fakeObserver) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lines)
}

func newWorld(t *testing.T) *world { return newGuardedWorld(t, nil) }

// newGuardedWorld makes a world with ports that ask a guard.
func newGuardedWorld(t *testing.T, guard *auth.Guard) *world {
	t.Helper()
	w := ownWorld(t, guard, 3*time.Minute) // no test can need it
	w.url = serveWorld(t, w.api).url
	w.grpcAddr = serveGRPC(t, w.api)
	return w
}

func newAPI(c Config) *API { return New(completed(c)) }

// completed adds what a test leaves out: that of a node where every caller may do everything, and no keys are hashed.
func completed(c Config) Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = await.Patience
	}
	if c.Keys == nil {
		c.Keys = plainKeys
	}
	if c.Guard == nil {
		c.Guard, c.Port = auth.NewGuard(nil), auth.Loopback
		c.Guard.Learn(&auth.Set{Known: true}) // of a cluster without tokens
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func plainKeys(string, bool) (*keyhash.Namespace, *shard.Error) { return nil, nil }

// ownWorld makes a world without ports. Calls without a deadline have the timeout.
func ownWorld(t *testing.T, guard *auth.Guard, timeout time.Duration) *world {
	w := &world{t: t, decider: &fakeDecider{decide: allow}, observer: &fakeObserver{},
		cluster: &fakeCluster{status: aStatus()}, secrets: &fakeSecrets{}, sinks: &fakeSinks{}, top: &fakeTop{},
		revision: &policy.Revision{Version: 7, Set: testPolicies()}, sealer: testSealer, shards: 3,
		bus: decisions.NewBus("n1", nil), watcher: &fakeWatcher{}}
	keys := func(namespace string, counted bool) (*keyhash.Namespace, *shard.Error) {
		if w.keys == nil {
			return nil, nil
		}
		return w.keys(namespace, counted)
	}
	w.api = newAPI(Config{
		Decider:  w.decider,
		Keys:     keys,
		Bus:      w.bus,
		Watcher:  w.watcher,
		Guard:    guard,
		Revision: func() *policy.Revision { return w.revision },
		Cluster:  w.cluster,
		Shards:   func() int { return w.shards },
		Slots:    func() *slot.Map { return slot.Even(uint32(w.shards)) },
		Stale:    func(r shard.Request) (shard.Decision, time.Duration, bool) { return w.stale(r) },
		Sealer:   func() *shard.Sealer { return w.sealer },
		NewestSealer: func(context.Context) (*shard.Sealer, error) {
			if w.newest == nil {
				return nil, errors.New("the system shard has no owner")
			}
			return w.newest, nil
		},
		Secrets:   w.secrets,
		Tokens:    fakeTokens{},
		Sinks:     w.sinks,
		Top:       w.top,
		Ready:     func() error { return w.ready },
		Listeners: decisions.Listeners{w.observer, w.bus},
		Metrics: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			io.WriteString(rw, "series\n")
		}),
		RequestTimeout: timeout,
	})
	return w
}

// serveGRPC opens grpc-go's door on a real port until the test ends.
func serveGRPC(t *testing.T, a *API) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewGRPC(a, auth.Loopback, slog.New(slog.DiscardHandler), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		// the server may not have begun to serve
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// serveWorld serves a handler on a real port until the test ends.
func serveWorld(t *testing.T, handler http.Handler) *world {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(handler, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return &world{t: t, url: "http://" + listener.Addr().String()}
}

// testPolicies has one policy without headers and one with every style.
func testPolicies() *policy.Set { return policy.NewSet(twoPolicies()) }

// familyPolicies has three more policies, each the parent of the one before.
func familyPolicies() *policy.Set {
	return policy.NewSet(append(twoPolicies(),
		lifetimePolicy("product", "vendor"), lifetimePolicy("vendor", "world"), lifetimePolicy("world", "")))
}

func twoPolicies() []*policy.Policy {
	const second = limit.Span(1_000_000)
	quota := uint64(30)
	return []*policy.Policy{
		{Name: "per-ip", Retention: policy.DefaultRetention, Limits: []policy.Limit{
			{Name: "minute", Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: 60 * second}},
		}},
		{Name: "api", Retention: policy.DefaultRetention, Reason: "Too many calls. See example.org/limits.",
			Headers: []string{"ietf", "x-ratelimit", "x-quota"},
			Tiers: map[string]policy.Tier{
				"researcher": {Limits: map[string]policy.TierLimit{"burst": {Quota: &quota}}}},
			Limits: []policy.Limit{
				{Name: "burst", Limit: limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 2, Period: second,
					Initial: 5}},
				{Name: "daily", Limit: limit.Limit{
					Algorithm: limit.SlidingBuckets, Quota: 200, Period: 86400 * second, Bucket: 60 * second}},
			}},
	}
}

func lifetimePolicy(name, parent string) *policy.Policy {
	return &policy.Policy{Name: name, Parent: parent, Retention: policy.DefaultRetention,
		Limits: []policy.Limit{{Name: "ever", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 9}}}}
}

// allow admits a request to the per-ip policy as the first of its minute.
func allow(r shard.Request) shard.Result {
	if r.Op == shard.ReadUsage {
		page := shard.UsagePage{Through: 1}
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Usage: &page}}}
	}
	d := shard.Decision{Allowed: true, DecidedAt: noon, Index: 1,
		Position: shard.Position{Shard: 3, Epoch: 17, Seq: 99}}
	for _, e := range r.Entries {
		d.Limits = append(d.Limits, shard.LimitStatus{Policy: e.Policy, Limit: "minute", Key: e.Key, Quota: 100,
			Verdict: limit.Verdict{Allowed: true, Used: e.Cost, Remaining: 100 - e.Cost,
				WindowStart: noon - 250_000, ResetAt: noon + 59_750_000}})
	}
	return shard.Result{Decision: d}
}

// deny denies every request for another 59.750001 s.
func deny(r shard.Request) shard.Result {
	result := allow(r)
	d := &result.Decision
	d.Allowed, d.Index, d.RetryAfter = false, 0, 59_750_001
	for i := range d.Limits {
		d.Limits[i].Verdict = limit.Verdict{Used: 100, WindowStart: noon - 250_000,
			ResetAt: noon + 59_750_000, RetryAfter: 59_750_001}
	}
	return result
}

func fail(err *shard.Error) func(shard.Request) shard.Result {
	return func(shard.Request) shard.Result { return shard.Result{Err: err} }
}

// post works like curl: JSON in, status and JSON out.
func (w *world) post(procedure, body string) (int, http.Header, string) {
	w.t.Helper()
	return w.do("POST", "/stint.v1."+procedure, "application/json", body)
}

func (w *world) do(method, path, contentType, body string) (int, http.Header, string) {
	w.t.Helper()
	r, err := http.NewRequest(method, w.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return w.send(r)
}

// send sends a request and reads the whole answer.
func (w *world) send(r *http.Request) (int, http.Header, string) {
	w.t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// quickDecider allows everything and stores nothing.
type quickDecider struct{}

func (quickDecider) Decide(_ context.Context, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i, r := range requests {
		results[i] = allow(r)
	}
	return results
}
