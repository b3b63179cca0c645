package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/stint-io/stint/api/gates"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/internal/observe/trace"
)

// gatekeeper is what every call passes on its way in and out. It authenticates the caller and checks that it may call a
// procedure, before any of the body is read; the handlers check each key (granted). It sets a missing deadline, gives
// an error its code, and reports the end.
type gatekeeper struct {
	guard    *auth.Guard
	ops      map[string]auth.Op // by procedure and path; written at registration only
	open     map[string]bool    // paths, and prefixes ending in a slash, that need no token
	attempts loglimit.Limit     // log lines about refused requests, by address
	logger   *slog.Logger
	tracer   *trace.Tracer // nil disables tracing
	reporter reporter

	admission admission     // shared by all ports
	timeout   time.Duration // of a call without a deadline
}

// newGatekeeper makes the gatekeeper of an API. The config has its defaults.
func newGatekeeper(c *Config, reports reporter) *gatekeeper {
	return &gatekeeper{
		guard:    c.Guard,
		ops:      make(map[string]auth.Op),
		reporter: reports,
		attempts: loglimit.Limit{Most: 10, Per: 10 * time.Second},
		logger:   c.Logger,
		tracer:   c.Tracer,
		timeout:  c.RequestTimeout,
		open: map[string]bool{"/": true, uiPath: true, "/healthz": true, "/readyz": true,
			"/" + grpchealth.HealthV1ServiceName + "/": true},
	}
}

// keepOut refuses the requests of callers without permission. The requests must have their exchange already.
func (g *gatekeeper) keepOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		if g.isOpen(r.URL.Path) { //mutant:path-asked-by-procedure
			if !x.conn.enter() {
				turnAway(w, r, http.StatusServiceUnavailable, connect.CodeUnavailable, tooManyOpen)
				return
			}
			defer x.conn.leave()
			next.ServeHTTP(w, r)
			awaitReader(w, r)
			return
		}
		procedure, token := r.URL.Path, tokenOf(r.Header["Authorization"])
		if gates.Asked(r) {
			procedure, token = gates.Prefix, gateToken(r.Header["Stint-Token"]) //mutant:visitors-token-opens
		}
		if refusal := g.admit(x, procedure, token, r.TLS); refusal != nil {
			g.refuse(w, r, refusal)
			return
		}
		x.trace = g.tracer.Incoming(r.Header["Traceparent"])
		next.ServeHTTP(w, r)
	})
}

// tooManyOpen is the answer on a connection with too many open calls that need no token.
const tooManyOpen = "too many calls without a token wait on this connection: nothing was done; " +
	"ask again when one has its answer"

// waitWeight is the room for entries that a call takes while it waits for the tokens: 4,096 of them may wait on a node.
const waitWeight = 32

// await makes a call wait until the node has the tokens, within the call's deadline: a client cannot know that the node
// it asks has just started. A call that finds no room, or runs out of time, goes on and is refused.
func (g *gatekeeper) await(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		procedure := r.URL.Path
		if gates.Asked(r) {
			procedure = gates.Prefix
		}
		if g.mustWait(procedure) {
			ctx := r.Context()
			if timeout, ok := timeoutOf(r); ok && timeout >= 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout) // of the whole call: the wait shortens the rest
				defer cancel()
				r = r.WithContext(ctx)
			}
			g.wait(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// mustWait reports whether a procedure's permission cannot be decided yet. Probes do not need it, and a node without a
// cluster shows its state to every caller.
func (g *gatekeeper) mustWait(procedure string) bool {
	set := g.guard.Set()
	return !set.Known && !g.isOpen(procedure) && !(set.Outside && g.ops[procedure] == auth.NoOp)
}

// wait waits for the tokens, at most the timeout of a call. Without room it does not wait.
func (g *gatekeeper) wait(ctx context.Context) {
	if !g.admission.take(waitWeight) {
		return
	}
	defer g.admission.give(waitWeight)
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	g.guard.Await(ctx)
}

// isOpen reports whether a path needs no token, as probes have none.
func (g *gatekeeper) isOpen(path string) bool {
	if g.open[path] {
		return true
	}
	i := strings.LastIndexByte(path, '/')
	return i > 0 && g.open[path[:i+1]]
}

// admit authenticates the caller of a procedure, keeps it in the exchange, and returns the reason for a refusal, or
// nil.
func (g *gatekeeper) admit(x *exchange, procedure, token string, secure *tls.ConnectionState) *auth.Refusal {
	proof := auth.Proof{Port: x.port, Token: token}
	if token == "" {
		proof.Role = clienttls.Role(secure)
	}
	x.tokens = g.guard.Set()
	caller, refusal := g.guard.Caller(proof)
	if refusal == nil {
		refusal = g.guard.Admit(caller, g.ops[procedure])
	}
	if refusal != nil {
		g.refused(x, procedure, token, refusal)
		return refusal
	}
	x.caller = caller
	x.conn.prove()
	return nil
}

// stillAdmits checks a long-running call again, and keeps the caller's present grants. Without a guard it admits all.
func (g *gatekeeper) stillAdmits(x *exchange, procedure string) *auth.Refusal {
	if x.caller == nil {
		return nil
	}
	caller, refusal := g.guard.Still(x.caller, x.port)
	if refusal == nil {
		refusal = g.guard.Admit(caller, g.ops[procedure])
	}
	if refusal == nil {
		x.caller = caller
	}
	return refusal
}

// afterMessage refuses a call if its token or role has ended since it was admitted: clients may take long to send the
// message.
func (g *gatekeeper) afterMessage(x *exchange, procedure string) error {
	if x.tokens == g.guard.Set() || x.callerName() == "" {
		return nil
	}
	if refusal := g.stillAdmits(x, procedure); refusal != nil { //mutant:late-message-outlives-its-token
		return refusal
	}
	return nil
}

// refused counts a refusal, and logs a wrong token unless its address sends too many.
func (g *gatekeeper) refused(x *exchange, procedure, token string, refusal *auth.Refusal) {
	procedure = g.countRefusal(procedure, codeOfRefusal(refusal))
	if token == "" || refusal.Kind != auth.Unproven {
		return
	}
	g.tell(x.remote, "a request with a wrong token was refused", "procedure", procedure)
}

// countRefusal counts a refusal, and returns the procedure's name in metrics and in the log: "other" if it is not
// served.
func (g *gatekeeper) countRefusal(procedure string, code connect.Code) string {
	if _, known := g.ops[procedure]; !known {
		procedure = "other"
	}
	g.reporter.turnedAway(procedure, code.String())
	return procedure
}

// tell logs a refusal, unless its address causes too many.
func (g *gatekeeper) tell(remote, text string, details ...any) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	if _, ok := g.attempts.Allow(host, time.Now()); ok {
		g.logger.Warn(text, append([]any{"address", host}, details...)...)
	}
}

// refuse answers in the protocol of the request.
func (g *gatekeeper) refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) {
	code := codeOfRefusal(refusal)
	status := http.StatusForbidden
	switch code {
	case connect.CodeUnauthenticated:
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="stint"`)
	case connect.CodeUnavailable:
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	turnAway(w, r, status, code, refusal.Message)
}

// coded reports the end of a call, and returns the error with its code, or nil.
func (g *gatekeeper) coded(
	ctx context.Context, procedure string, began time.Time, err error,
) (coded *connect.Error) {
	code := "ok"
	if err != nil {
		coded = codedError(err)
		code = coded.Code().String()
	}
	x := exchangeOf(ctx)
	if x.gate != "" {
		procedure, code = x.gate, x.gateCode
	}
	g.reporter.ended(x, procedure, code, began, err)
	return coded
}

// tokenOf returns the token of an Authorization header or of gRPC's metadata, or "" if there is none. A malformed
// header counts as a wrong token, not as none.
func tokenOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	const scheme = "Bearer "
	if text := values[0]; len(values) == 1 && len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
		return text[len(scheme):]
	}
	return "?"
}

// gateToken returns the token of a proxy that asks a gate, or "" if there is none. An empty header, or several, count
// as a wrong token. The Authorization header is the visitor's.
func gateToken(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return cmp.Or(values[0], "?")
	}
	return "?"
}

// keepOutGRPC is keepOut for a procedure on grpc-go's port. It gives every call its exchange.
func (g *gatekeeper) keepOutGRPC(port auth.Port, procedure string, next grpc.StreamHandler) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		x := &exchange{admission: &g.admission, port: port}
		defer x.end()
		ctx := x.within(stream.Context())
		if !g.isOpen(procedure) {
			var info connInfo
			x.conn, info, x.remote = connectionIn(ctx)
			token := tokenOf(metadata.ValueFromIncomingContext(ctx, "authorization"))
			if g.mustWait(procedure) {
				g.wait(ctx)
			}
			if refusal := g.admit(x, procedure, token, info.secure()); refusal != nil {
				return grpcError(stream, codedError(refusal))
			}
			if g.tracer != nil {
				x.trace = g.tracer.Incoming(metadata.ValueFromIncomingContext(ctx, "traceparent"))
			}
		}
		return next(service, admittedStream{stream, ctx})
	}
}

// admittedStream is a call through grpc-go with its exchange.
type admittedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s admittedStream) Context() context.Context { return s.ctx }
