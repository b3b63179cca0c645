package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// Watcher subscribes to the decisions of the other nodes. It may be called concurrently.
type Watcher interface {
	// Join puts the decisions of all other nodes that match a filter into a reader until ctx ends, and returns when
	// nothing runs any more. It calls missing with the nodes that it does not hear at present, at the beginning and
	// whenever they change, one call at a time.
	Join(ctx context.Context, f *decisions.Filter, into *decisions.Reader, missing func(nodes []string))
}

// watchService answers ObserveService.Watch.
type watchService struct {
	*Config

	gate     *gatekeeper
	draining context.Context
	open     *connlimit.Bound[string] // by the caller's name; unnamed callers have no share of their own
}

const (
	// watchesMost bounds the memory of streams: each has a ring of events, and the other nodes one for it too.
	// One token or role may have a quarter of them, so that it leaves some to others.
	watchesMost = 64
	watchLook   = time.Second      // how often a stream checks its token
	watchPulse  = 10 * time.Second // the longest silence of a stream
	// watchRate bounds the events of a stream in a second: making and sending them takes processor time from counting.
	// Events beyond it are missed.
	watchRate = 1000
)

type watchCall = call[stintv1.WatchRequest, *stintv1.WatchRequest]

func (s watchService) register(d *registry) {
	procedure := stintv1connect.ObserveServiceWatchProcedure
	// Either of two operations permits Watch, so it checks itself.
	watch := streamer[stintv1.WatchRequest, stintv1.Event, *stintv1.WatchRequest](s.counted)
	d.handle(auth.NoOp, procedure, connect.NewServerStreamHandler(procedure, watch.connect, codecs, gzipped))
	d.serveGRPC(procedure, grpc.StreamDesc{Handler: watch.grpc, ServerStreams: true})
}

var (
	errWatches = &shard.Error{Code: shard.Overloaded,
		Message: "this node has as many streams of decisions as it may; ask another node"}
	// errWatchDraining ends a stream, which counts nothing.
	errWatchDraining = &shard.Error{Code: shard.Draining, Message: "this node stops; watch another one"}
)

// counted serves a stream if there is room for it, and reports its end.
func (s watchService) counted(ctx context.Context, c *watchCall, send func(*stintv1.Event) error) (err error) {
	defer func() {
		ended := err
		if errors.Is(ctx.Err(), context.Canceled) {
			ended, err = nil, ctx.Err() // the client has seen enough
		}
		// The duration of a stream is not a latency.
		s.gate.coded(ctx, stintv1connect.ObserveServiceWatchProcedure, time.Now(), ended)
	}()
	if err := c.problem(); err != nil {
		return err
	}
	who := callerIn(ctx).Name()
	if s.open.Enter(who) != connlimit.Room {
		return errWatches
	}
	defer s.open.Leave(who)
	return s.serve(ctx, &c.message, send)
}

// look returns what the caller may see at present.
func (s watchService) look(x *exchange, namespace string) (v keyVisibility, refusal *auth.Refusal) {
	if refusal := s.gate.stillAdmits(x, stintv1connect.ObserveServiceWatchProcedure); refusal != nil {
		return v, refusal
	}
	return s.visibilityOf(x.whom(), namespace)
}

// serve sends events until the client leaves, its token ends or the node stops.
func (s watchService) serve(ctx context.Context, m *stintv1.WatchRequest, send func(*stintv1.Event) error) error {
	x := exchangeOf(ctx)
	w := &watchStream{watchService: s, send: send, asked: m.Key}
	var err error
	if w.filter, err = watchWanted(m); err != nil {
		return err
	}
	sees, refusal := s.look(x, w.filter.Namespace)
	if refusal != nil {
		return refusal
	}
	if err := w.findKeys(&sees); err != nil {
		return err
	}
	w.events = s.Bus.Open(&w.filter)
	defer w.events.Close()
	ctx, leave := context.WithCancelCause(ctx)
	defer context.AfterFunc(s.draining, func() { leave(errWatchDraining) })()
	var others sync.WaitGroup
	defer others.Wait()
	defer leave(nil)
	if s.Watcher == nil {
		w.missing.Store(&[]string{})
	} else {
		others.Go(func() {
			s.Watcher.Join(ctx, &w.filter, w.events, func(nodes []string) {
				w.missing.Store(&nodes)
				w.events.Wake()
			})
		})
	}
	tick := time.Tick(watchLook)
	for {
		if sees, refusal = s.look(x, w.filter.Namespace); refusal != nil {
			return refusal
		}
		sent, err := w.sendWaiting(&sees)
		if err != nil {
			return err
		}
		if sent > 0 && !sleep.For(ctx, time.Duration(sent)*time.Second/watchRate) {
			return context.Cause(ctx)
		}
		select {
		case <-w.events.Ready():
		case <-tick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchWanted reads a request.
func watchWanted(m *stintv1.WatchRequest) (f decisions.Filter, err error) {
	namespace, wrong := namespaceOf(m.Namespace)
	f = decisions.Filter{Namespace: namespace, Policies: slices.Clone(m.Policies), Key: m.Key, KeyPrefix: m.KeyPrefix}
	err = cmp.Or(wrong, policyNamesProblem(m.Policies, decisions.PoliciesMax),
		invalid("key", optional(m.Key, shard.KeyProblem)),
		invalid("key_prefix", optional(m.KeyPrefix, shard.KeyProblem)))
	if err != nil {
		return f, err
	}
	for _, kind := range m.Kinds {
		known := false
		for of, number := range eventKinds {
			if number == kind {
				f.Kinds, known = append(f.Kinds, of), true
			}
		}
		switch {
		case known:
		case kind == stintv1.EventKind_EVENT_KIND_STREAM:
			return f, shard.Invalidf("kinds", "has %v, which always comes: name others, or none for all", kind)
		default:
			return f, shard.Invalidf("kinds", "has %d, which this version does not know", kind)
		}
	}
	return f, nil
}
