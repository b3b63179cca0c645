package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The path at which an edge connects to a node, and the protocol that it asks for there: that of requests between nodes
// (package hop).
const (
	EdgePath     = "/edge"
	EdgeProtocol = "stint-hop/1"
)

// edgeService serves the edges that are connected to this node. It trusts them no further than their tokens go: each
// request is checked again for what a caller of the API may do, and is decided as one of the API.
type edgeService struct {
	limitService

	gate     *gatekeeper
	draining context.Context // ends all connections, as in API
	readers  *sync.WaitGroup // likewise
	open     *atomic.Int64   // edges that are connected
}

func (s edgeService) register(d *registry) {
	if s.Document != nil {
		d.handle(auth.Edge, EdgePath, s)
	}
}

// ServeHTTP turns the connection of a request into one of an edge, and serves it until it ends.
func (s edgeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") != EdgeProtocol {
		w.Header().Set("Upgrade", EdgeProtocol)
		http.Error(w, "an edge connects here, over HTTP/1.1, with Upgrade: "+EdgeProtocol, http.StatusUpgradeRequired)
		return
	}
	conn, _, err := http.NewResponseController(x.answer.ResponseWriter).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot become that of an edge", http.StatusInternalServerError)
		return
	}
	s.readers.Add(1)
	defer s.readers.Done()
	s.open.Add(1)
	defer s.open.Add(-1)
	ctx, cancel := context.WithCancel(s.draining)
	defer cancel()
	s.Logger.Info("an edge has connected", "token", x.callerName(), "address", x.remote)
	err = s.serve(ctx, conn, edgeCaller{s, x.caller, x.port, x.remote})
	s.Logger.Info("an edge has left", "token", x.callerName(), "address", x.remote, "error", err)
}

// serve tells the edge to go on in hop's protocol, and serves it until the connection or ctx ends. It closes the
// connection.
func (s edgeService) serve(ctx context.Context, conn net.Conn, of edgeCaller) error {
	err := conn.SetDeadline(time.Time{}) // those of its HTTP request
	if err == nil {
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n" +
			"Connection: Upgrade\r\nUpgrade: " + EdgeProtocol + "\r\n\r\n"))
	}
	if err != nil {
		conn.Close()
		return err
	}
	return hop.Serve(ctx, conn, of.handle)
}

// edgeCaller is one connection of an edge.
type edgeCaller struct {
	edgeService
	caller *auth.Caller // as it connected; its present grants are asked for each time
	port   auth.Port
	remote string // address
}

// handle is a hop.Handler. The edge's token is asked for every call: it may have been revoked.
func (e edgeCaller) handle(ctx context.Context, _ int, id shard.ID, requests []shard.Request) []shard.Result {
	caller, refusal := e.gate.guard.Still(e.caller, e.port) //mutant:edge-outlives-its-token
	if refusal == nil {
		refusal = e.gate.guard.Admit(caller, auth.Edge)
	}
	if refusal != nil {
		return shard.RefuseAll(len(requests), EdgeRefused(refusal))
	}
	if id == shard.System {
		return e.documents(requests)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.gate.timeout)
		defer cancel()
	}
	x := &exchange{caller: caller, port: e.port, remote: e.remote, admission: &e.gate.admission}
	return e.decide(x.within(ctx), caller, requests)
}

// EdgeRefused tells an edge that its token does not allow what it asks. Its callers cannot help that: they hear that
// nothing could be decided, at once, and no denial.
func EdgeRefused(err error) *shard.Error {
	return &shard.Error{Code: shard.Unavailable, RetryAfter: limit.Span(time.Second / time.Microsecond),
		Message: "the cluster refuses a request of this edge, and nothing was counted: " + err.Error()}
}

// documents answers with those that are newer than what the edge knows, and how long ago this node's were the newest.
func (e edgeCaller) documents(requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	age := limit.Span(e.gate.guard.Unheard() / time.Microsecond)
	for i := range requests {
		r := &requests[i]
		newest, shared := e.Document(r.Document)
		if r.Op != shard.Fetch || !shared { //mutant:edge-writes-documents
			results[i].Err = EdgeRefused(auth.NotGrantedError(auth.Backup))
			continue
		}
		d := &results[i].Decision
		if d.Allowed, d.Age = true, age; newest.Version > r.Expect {
			d.System = &shard.SystemAnswer{Document: newest}
		}
	}
	return results
}

// decide decides the requests that the edge may make, and refuses the others.
func (e edgeCaller) decide(ctx context.Context, caller *auth.Caller, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	policies := e.policies()
	var good []shard.Request
	var places []int
	for i := range requests {
		if err := e.mayAsk(caller, policies, &requests[i]); err != nil {
			results[i].Err = err
			continue
		}
		good, places = append(good, requests[i]), append(places, i)
	}
	if len(good) == 0 {
		return results
	}
	for n, result := range e.Decider.Decide(ctx, good) {
		if d := &result.Decision; result.Err == nil {
			if id := idOf(e.sealer(), policies, &good[n], d); id != "" && sealsFor(good[n].Op) {
				d.System = &shard.SystemAnswer{Sealed: id}
			}
		}
		results[places[n]] = result
	}
	return results
}

// sealsFor reports whether what a request has taken gets an id.
func sealsFor(op shard.Op) bool {
	return op == shard.Check || op == shard.Partial || op == shard.Count || op == shard.Reserve
}

// mayAsk refuses what no caller of the API could ask, or not with the edge's token. The edge has added the entries of
// parents itself, so they are checked too. Keys are hashed behind this, by the node.
func (e edgeCaller) mayAsk(caller *auth.Caller, policies *policy.Set, r *shard.Request) *shard.Error {
	op := opAsked(r)
	ofNodes := r.Session != (shard.Session{}) || r.Number != 0 || r.Operation != nil || r.Settlement != nil || r.Hashed
	if op == auth.NoOp || ofNodes { //mutant:edge-asks-as-a-node
		return EdgeRefused(auth.NotGrantedError(auth.Cluster))
	}
	if refusal := e.gate.guard.Admit(caller, op); refusal != nil {
		return EdgeRefused(refusal)
	}
	if problem := policy.NameProblem(r.Namespace); problem != "" { //mutant:edge-gives-any-name
		return shard.Invalidf("namespace", "%s", problem)
	}
	if policies.HashesKeys(r.Namespace) {
		return EdgeRefused(errEdgeHashes) // the edge does not know these policies yet
	}
	for i := range r.Entries {
		entry := &r.Entries[i]
		if problem := shard.KeyProblem(entry.Key); problem != "" {
			return shard.Invalidf("key", "%s", problem)
		}
		inline := len(entry.Limits) > 0
		problem := policy.NameProblem(entry.Policy)
		if problem != "" && !(inline && entry.Policy == "") { //mutant:edge-gives-any-label
			return shard.Invalidf("policy", "%s", problem)
		}
		on := auth.Target{Namespace: r.Namespace, Policy: entry.Policy, Key: entry.Key, Tier: entry.Tier}
		on.Unlimited = on.Tier != "" && policies.TierIsUnlimited(on.Policy, on.Tier)
		if !caller.May(op, on) { //mutant:edge-asks-for-any-key
			return EdgeRefused(auth.NotGrantedError(op))
		}
		//mutant:edge-brings-limits-as-a-tally
		if inline && r.Op != shard.Tally && r.Op != shard.ReadTally && !caller.May(auth.Inline, on) {
			return EdgeRefused(auth.NotGrantedError(auth.Inline))
		}
	}
	if r.Adjustment != nil {
		r.Adjustment.Actor = "" // as Envoy's, which reports what it gives back; no person's
	}
	return nil
}

var errEdgeHashes = &shard.Error{Code: shard.Unavailable,
	Message: "an edge serves no namespace whose keys are hashed; ask a node"}

// opAsked returns what a caller must be allowed for a request, or NoOp for one that is not for edges.
func opAsked(r *shard.Request) auth.Op {
	switch r.Op {
	case shard.Check, shard.Peek, shard.Count, shard.Partial, shard.Reserve:
		return auth.Check
	case shard.Lease:
		return auth.Lease
	case shard.Get, shard.ReadTally:
		return auth.Read
	case shard.AddUsed:
		return auth.Adjust
	case shard.Tally:
		if r.Tally != nil && r.Tally.Verb == shard.TallyAdd {
			return auth.Check
		}
		return auth.Adjust
	}
	return auth.NoOp
}
