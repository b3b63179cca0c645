package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/observe/calllog"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// EdgeConfig configures an edge. Of its Config it uses what is about ports for clients and about logs, and ignores the
// rest.
type EdgeConfig struct {
	Config

	Upstream      []string               // URLs of the ports for clients of nodes; at least one
	UpstreamTLS   *tls.Config            // for those with https; nil: the system's authorities
	UpstreamToken func() (string, error) // the edge's token, "": none; called for each connection
	SecretFiles   [][2]string            // flags with the files that those two are from, or ""; for a warning
}

// Edge is a process with the ports for clients and without a replica. It asks the nodes of its cluster through their
// ports for clients, answers from leases as a node does, and knows policies and tokens as nodes told it. It writes
// nothing to disk. StartEdge creates it. All methods but Close may be called concurrently.
//
// Its router is that of a node that has no shard: every shard's owner is behind one of the upstream nodes, and these
// coordinate what is about several shards. It has no sessions, so a request without an id whose connection breaks may
// have been counted, and is not sent again.
type Edge struct {
	process
	upstream *upstream
	poster   *notify.Poster // fetches the keys of gates; an edge sends to no sink

	// when a node last told the edge what it must know, in Unix microseconds; 0: never
	heard   atomic.Int64
	refused atomic.Pointer[shard.Error] // by a node that was just asked for that; nil: it was not
	checked uint64                      // the connections at which the cluster was known to be the same; owned by learn
}

const (
	// learnEvery is how often an edge asks for what changed: tokens that were revoked, policies.
	learnEvery = 500 * time.Millisecond
	// upstreamSilent is for how long no node may have answered an edge that is ready.
	upstreamSilent = 3 * time.Second
)

// StartEdge starts an edge and returns when its ports are open. It reaches its cluster in the background: requests wait
// for that.
func StartEdge(config EdgeConfig) (*Edge, error) {
	config.Config = config.withDefaults()
	if err := config.validateClientAddrs(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	up, err := newUpstream(&config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	e := &Edge{upstream: up}
	e.init(config.Config)
	e.assemble()
	config.warnOfExposed(config.SecretFiles...)
	if err := e.ports.prepare(e.tokens.guard, e.metrics); err != nil {
		return nil, errors.Join(err, e.Close(e.ctx))
	}
	e.serve()
	e.running.Go(e.learn)
	return e, nil
}

func (e *Edge) assemble() {
	e.documents = newDocuments(nil, e.config.Logger, e.fail)
	e.tokens = newTokens(e.documents, false, e.config.now())
	e.tokens.guard.Learn(&auth.Set{}) // nobody is let in before the cluster has said who may
	e.view = newClusterView(viewConfig{documents: e.documents, logger: e.config.Logger, fail: e.fail,
		onTable: func() { e.router.Wake() }, onRulesChanged: func() { e.ports.rulesChanged() }}, e.tokens)
	e.documents.shared = slices.DeleteFunc(e.documents.shared, func(one sharedDocument) bool { return !forEdges(one) })
	e.hop = hop.New(hop.Far, e.upstream.dialHop)
	e.router = routing.New(routing.Config{
		Slots:    e.slots,
		Places:   e.upstream.nodes,
		Local:    func(shard.ID) (routing.Owner, bool) { return nil, false },
		Leader:   func(shard.ID) string { return "" },
		Forward:  e.hop,
		Hints:    gossip.NewHints(placement.MaxShards),
		Sessions: func(shard.ID) bool { return false },
		Policies: e.view.revision,
		Whole:    true,
		Slept:    machineSlept,
		Now:      e.config.now(),
	})
	e.documents.router = e.router
	e.metrics.Health(func() metrics.Health {
		hops := e.hop.Stats()
		return metrics.Health{Ready: e.Ready() == nil, HopRequests: hops.Requests, HopFrames: hops.Frames,
			DenialsKept: e.router.DenialsKept(), LeasesHeld: e.router.LeasesHeld(),
			CertificateEnds: map[string]time.Time{"api": e.ports.secure.Ends()}}
	})
	hide := func(string, string) (hash string, ok bool) { return "", false } // the secret for that is the nodes'
	e.decisionLog = e.config.newDecisionLog(hide, e.metrics)
	e.decisions = decisions.NewBus("edge", e.decisionLog)
	e.poster = notify.NewPoster(notify.Config{Allow: e.config.SinkAllow, Roots: e.config.World.Sinks.Roots,
		Dial: e.config.World.Dial, Timeout: e.config.World.Sinks.Timeout, Agent: "stint/" + e.config.Version})
}

// serve serves the ports for clients. The edge has no secret of hashed keys: it serves no namespace that has those.
func (e *Edge) serve() {
	calls := calllog.New(e.config.Logger, e.config.LogSlow, time.Now)
	e.serveClients(api.Config{
		Upstream:   e.upstream,
		EndLeases:  e.router.EndLeases,
		KeySources: e.poster.Transport(),
		Listeners:  decisions.Listeners{e.metrics, calls, e.decisions},
		Ready:      e.Ready,
		Metrics:    e.metrics.Handler(),
	})
}

// learn asks a node again and again for what the ports must know.
func (e *Edge) learn() {
	said := newComplaints()
	for more := true; more; more = sleep.For(e.ctx, learnEvery) {
		err := e.learnOnce()
		if errors.Is(err, errOtherCluster) {
			e.fail(err)
			return
		}
		refused, _ := errors.AsType[*shard.Error](err)
		if refused != nil && refused.RetryAfter < routing.LongWait {
			refused = nil // the next answer may be another one
		}
		switch e.refused.Store(refused); {
		case err == nil || e.ctx.Err() != nil:
		case refused != nil && mayComplain(&said, "refusal", time.Now()):
			e.config.Logger.Error("the cluster refuses this edge: its token must be valid, and allow edge",
				"error", err)
		case refused == nil && mayComplain(&said, "upstream", time.Now()):
			e.config.Logger.Warn("the cluster does not answer this edge", "error", err)
		}
	}
}

// learnOnce asks a node for the documents that are newer than the known ones, which says how fresh those are, too.
func (e *Edge) learnOnce() error {
	var requests []shard.Request
	connected := e.upstream.connected.Load()
	for _, one := range e.documents.shared {
		known := one.copy()
		if known.Name == placement.TableDocument && connected != e.checked { //mutant:edge-knows-its-cluster
			known.Version = 0
		}
		requests = append(requests, shard.Request{Op: shard.Fetch, Namespace: systemNamespace, Document: known.Name,
			Expect: known.Version})
	}
	asked := e.config.World.Now()
	newest := asked
	var newer []placement.NamedDocument
	for i, r := range e.documents.exchange(e.ctx, requests...) {
		if r.Err != nil {
			return r.Err
		}
		newest = asked.Add(-time.Duration(r.Decision.Age) * time.Microsecond)
		if d := r.Decision.Answer().Document; d.Version > 0 {
			newer = append(newer, placement.NamedDocument{Name: requests[i].Document, Document: d})
		}
	}
	if err := e.sameCluster(newer); err != nil {
		return err
	}
	e.checked = connected
	if !e.documents.learn(newer) {
		return errors.New("it says what this release cannot read: run a newer one")
	}
	e.tokens.hear(newest)
	e.heard.Store(asked.UnixMicro())
	return nil
}

// sameCluster refuses the documents of another cluster, such as one that was restored at the same addresses. The
// versions of its documents may be lower than those of the former, so nothing tells which of them are newer: the edge
// would go on with tokens that were revoked since.
func (e *Edge) sameCluster(newer []placement.NamedDocument) error {
	for i := range newer {
		if newer[i].Name != placement.TableDocument || !e.view.hasTable() {
			continue
		}
		table, err := placement.DecodeTable(newer[i].Body)
		known := e.view.newestTable().Cluster
		if err == nil && table.Cluster != known { //mutant:edge-outlives-its-cluster
			return fmt.Errorf("%w: this edge is one of cluster %s, and at --upstream is cluster %s now: start it again",
				errOtherCluster, known, table.Cluster)
		}
	}
	return nil
}

var errOtherCluster = errors.New("the cluster was restored, or replaced")

// Ready returns nil when the edge can ask its cluster, and otherwise says what is missing.
func (e *Edge) Ready() error {
	heard, refused := e.heard.Load(), e.refused.Load()
	switch {
	case e.stopping.Load():
		return errors.New("the edge is stopping")
	case refused != nil:
		return refused
	case heard == 0 || e.view.revision() == nil || !e.view.hasTable():
		return errors.New("no node of the cluster has answered yet")
	case e.config.World.Now().Sub(time.UnixMicro(heard)) > upstreamSilent:
		return fmt.Errorf("no node of the cluster has answered for more than %v", upstreamSilent)
	}
	return nil
}

// AwaitReady waits until the edge is ready, or returns why it is not when ctx ends, or the reason to stop.
func (e *Edge) AwaitReady(ctx context.Context) error { return e.awaitReady(ctx, e.Ready) }

// Close stops the edge: its clients leave first, then its leases are returned.
func (e *Edge) Close(ctx context.Context) error {
	e.stopping.Store(true)
	if e.ports.servesAPI() {
		sleep.For(ctx, lameDuck)
	}
	e.cancel()
	e.running.Wait()
	err := e.ports.stop(ctx)
	e.router.Close()
	e.hop.Close()
	e.upstream.passes.CloseIdleConnections()
	e.poster.Close()
	e.decisionLog.Close(decisionLogWithin)
	return err
}
