package gates

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/gate"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/policy"
)

// Prefix begins the path of every gate.
const Prefix = "/gate/"

// patience bounds the time for an answer. A visitor waits for it, and proxies time out early.
const patience = 250 * time.Millisecond

// Asked reports whether a request is for a gate. Gates are not on the mux, which would redirect a proxy with a
// visitor's path "//".
func Asked(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, Prefix) }

// Config has the parts of the API that gates need.
type Config struct {
	Policies func() *policy.Set // in force
	// Check decides as the procedure Check does, by the rights of the caller in the context.
	Check  func(context.Context, *stintv1.CheckRequest) (*stintv1.CheckResponse, error)
	CodeOf func(error) connect.Code // the code of a call that fails with an error
	// Ended takes the event of an answer: the path of the gate, the code, and the time of the question.
	Ended  func(ctx context.Context, gate, code string, begun time.Time)
	Keys   http.RoundTripper // fetches key sets (JWKS); nil allows any address
	Logger *slog.Logger
}

// Gates answers the questions of proxies by making each a check. It may be used concurrently.
type Gates struct {
	Config
	ignored loglimit.Limit // log lines about ignored headers, by address
	cache   gateCache
}

// New makes the gates of the policies in force.
func New(c Config) *Gates {
	return &Gates{Config: c, ignored: loglimit.Limit{Most: 10, Per: 10 * time.Second},
		cache: gateCache{logger: c.Logger, transport: c.Keys}}
}

// Prepare prepares the gates of the policies in force, so that the keys that verify their tokens are loaded before the
// first request; otherwise the first request loads them.
func (g *Gates) Prepare() { g.cache.current(g.Policies()) }

// Close stops the background work and waits for it.
func (g *Gates) Close() { g.cache.close() }

// Before serves gates, and leaves all else to the next handler.
func (g *Gates) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Asked(r) {
			g.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler. It never reads a body.
func (g *Gates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1 would wait for the body; other protocols do not
	name, path := pathOf(r)
	a := answer{w: w, codeOf: g.CodeOf, masked: path == "" && r.URL.RawQuery == "deny=403"}
	at, code := g.ask(r.Context(), &a, name,
		&gate.Question{Peer: r.RemoteAddr, Method: r.Method, Host: r.Host, Path: path, Header: r.Header})
	g.Ended(r.Context(), at, code, begun)
}

// Answer answers the question of a proxy that does not ask by HTTP as ServeHTTP would. It returns the path of the gate
// and the code for the event of the call.
func (g *Gates) Answer(ctx context.Context, w http.ResponseWriter, name string, q *gate.Question) (path, code string) {
	return g.ask(ctx, &answer{w: w, codeOf: g.CodeOf}, name, q)
}

// Refuse answers a question that cannot be read. It returns what Answer does.
func Refuse(w http.ResponseWriter, r *gate.Refusal) (path, code string) {
	return Prefix, (&answer{w: w}).refuse(r)
}

// ask answers a question at a gate, if there is such a gate, and returns the path of the gate and the code.
func (g *Gates) ask(ctx context.Context, a *answer, name string, q *gate.Question) (path, code string) {
	at := g.cache.current(g.Policies()).gates[name]
	if at == nil {
		a.problem(http.StatusNotFound, "", "There is no such gate.")
		return Prefix, connect.CodeNotFound.String()
	}
	a.denied = at.gate.Rules().Denied
	if at.gate.Ignores(q) {
		host, _, err := net.SplitHostPort(q.Peer)
		if _, ok := g.ignored.Allow(host, time.Now()); ok && err == nil {
			g.Logger.Warn("a gate ignores what a proxy says was asked, since its address is not in trusted_proxies",
				"gate", name, "address", host)
		}
	}
	return Prefix + name, g.answer(ctx, a, at, q)
}

// pathOf returns the name of the gate and the rest of the path, as sent: URL.EscapedPath would write "a%2Fb|" as
// "a/b%7C", and the site may read the former.
func pathOf(r *http.Request) (name, path string) {
	target := r.RequestURI
	if _, rest, absolute := strings.Cut(target, "://"); absolute && !strings.HasPrefix(target, "/") {
		target = rest[max(0, strings.IndexByte(rest, '/')):]
	}
	target, _, _ = strings.Cut(target, "?")
	rest, found := strings.CutPrefix(target, Prefix)
	if !found { // an unusual spelling that no client needs
		return "", ""
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, ""
}

// answer answers a question and returns its code.
func (g *Gates) answer(ctx context.Context, a *answer, at *readyGate, q *gate.Question) (code string) {
	route, err := at.gate.Match(q)
	var refusal *gate.Refusal
	switch {
	case errors.As(err, &refusal):
		return a.refuse(refusal)
	case route == nil && at.gate.Rules().NoMatch == policy.NoMatchAllow:
		a.pass(nil)
		return "ok"
	case route == nil:
		a.problem(http.StatusForbidden, "", "No rule allows this request.")
		return connect.CodePermissionDenied.String()
	}
	within, cancel := context.WithTimeout(ctx, patience) //mutant:gate-waits-like-a-call
	defer cancel()
	d, err := g.decide(within, at, route, q)
	switch {
	case err != nil && ctx.Err() != nil:
		// The caller has gone, or has only closed its sending side and may still pass on an answer: without one it
		// would be 200.
		//mutant:gone-visitor-passes //mutant:gone-visitor-undecided 2
		a.undecided(err, false)
		return connect.CodeCanceled.String()
	case err != nil:
		return a.undecided(err, route.Open())
	case d.GetAllowed():
		a.pass(d.GetHeaders())
	default:
		a.deny(d)
	}
	return "ok"
}

// decide makes a check of a question. If there is nothing to count, there is no decision, and the request passes.
func (g *Gates) decide(
	ctx context.Context, at *readyGate, route *gate.Route, q *gate.Question,
) (*stintv1.Decision, error) {
	entries, err := route.Entries(q, func(token string) (string, error) { return at.subject(ctx, token) })
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return &stintv1.Decision{Allowed: true}, nil
	}
	check := &stintv1.CheckRequest{Namespace: at.gate.Rules().Namespace, IdempotencyId: at.gate.ID(q, entries),
		Entries: make([]*stintv1.Entry, len(entries))}
	for i := range entries {
		check.Entries[i] = &stintv1.Entry{Policy: entries[i].Policy, Key: entries[i].Key, Cost: &entries[i].Cost}
	}
	answer, err := g.Check(ctx, check)
	return answer.GetDecision(), err
}
