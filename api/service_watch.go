package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
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
	open     *watching
}

const (
	// watchesMost bounds the memory of streams: each has a ring of events, and the other nodes one for it too.
	watchesMost = 64
	// watchesOfOne bounds the streams of one token or role, so that it leaves some to others.
	watchesOfOne = watchesMost / 4
	watchLook    = time.Second      // how often a stream checks its token
	watchPulse   = 10 * time.Second // the longest silence of a stream
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
	end := s.open.begin(callerIn(ctx).Name())
	if end == nil {
		return errWatches
	}
	defer end()
	return s.serve(ctx, &c.message, send)
}

// watching counts the streams that are open. It may be used concurrently.
type watching struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by the caller's name; unnamed callers have no share of their own
}

// begin counts a stream until its end, or returns nil if there are too many.
func (w *watching) begin(who string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= watchesMost || who != "" && w.of[who] >= watchesOfOne { //mutant:one-token-watches-alone
		return nil
	}
	if w.of == nil {
		w.of = make(map[string]int)
	}
	w.all++
	w.of[who]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all--
		if w.of[who]--; w.of[who] == 0 {
			delete(w.of, who)
		}
	}
}

// look returns what the caller may see at present.
func (s watchService) look(x *exchange, namespace string) (v sight, refusal *auth.Refusal) {
	if x.caller != nil {
		if refusal := s.gate.stillAdmits(x, stintv1connect.ObserveServiceWatchProcedure); refusal != nil {
			return v, refusal
		}
	}
	return s.sightOf(x.whom(), namespace)
}

// watch is one stream.
type watch struct {
	watchService
	filter  decisions.Filter
	asked   string // the requested key, as the client has sent it; may be empty
	send    func(*stintv1.Event) error
	events  *decisions.Reader
	missing atomic.Pointer[[]string] // nil until the other nodes have been tried
	told    *[]string                // the nodes last reported to the client; nil if none were
	quiet   time.Time                // when something was sent last
}

// serve sends events until the client leaves, its token ends or the node stops.
func (s watchService) serve(ctx context.Context, m *stintv1.WatchRequest, send func(*stintv1.Event) error) error {
	x := exchangeOf(ctx)
	w := &watch{watchService: s, send: send, asked: m.Key}
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

// findKeys refuses to look for keys that the caller may not see, and translates the requested key into its counted
// form.
func (w *watch) findKeys(sees *sight) error {
	if w.filter.Key == "" && w.filter.KeyPrefix == "" {
		return nil
	}
	if !sees.keys {
		return auth.NotGrantedError(auth.ObserveKeys)
	}
	by, unknown := w.Keys(w.filter.Namespace, false)
	switch {
	case unknown != nil:
		return unknown
	case by != nil && w.filter.KeyPrefix != "":
		return shard.Invalidf("key_prefix", "is of no use: %q hashes its keys", w.filter.Namespace)
	case by != nil:
		hash, err := w.Keys.hash(w.filter.Namespace, w.filter.Key)
		w.filter.Key = hash
		return err
	}
	return nil
}

// sendWaiting sends the waiting events, and a message about the stream itself when that is due. It returns the number
// of events.
func (w *watch) sendWaiting(sees *sight) (sent int, err error) {
	if w.missing.Load() == nil {
		return 0, nil // the stream begins when it knows which nodes it hears
	}
	events, missed := w.events.Take()
	if missing := w.missing.Load(); missing != w.told || time.Since(w.quiet) >= watchPulse {
		w.told, w.quiet = missing, time.Now()
		err := w.send(&stintv1.Event{Kind: stintv1.EventKind_EVENT_KIND_STREAM, At: timestamppb.Now(),
			Namespace: w.filter.Namespace, Missed: missed, MissingNodes: *missing})
		if err != nil {
			return sent, err
		}
		missed = 0
	}
	for _, e := range events {
		m, err := w.message(e, sees)
		if err != nil {
			return sent, err
		}
		if m == nil {
			continue
		}
		m.Missed, missed = missed, 0
		if err := w.send(m); err != nil {
			return sent, err
		}
		sent++
		w.quiet = time.Now()
	}
	if missed > 0 {
		w.events.Miss(missed) // reported with the next event
	}
	return sent, nil
}

// message returns an event for the client, or nil if the client may not see it.
func (w *watch) message(e *decisions.Record, sees *sight) (*stintv1.Event, error) {
	wanted := false // an event is shown for a requested key if the caller may see it, or the hash of any
	hashes := sees.observes && w.filter.Key == "" && w.filter.KeyPrefix == ""
	for one := range e.Entries() {
		wanted = wanted || w.filter.WantsEntry(one) && (sees.shows(one.Policy, one.Key) || hashes)
	}
	kind, known := eventKinds[e.Kind] // another node may run a newer release
	if !wanted || !known {
		return nil, nil
	}
	if e.Happened != nil {
		return w.happening(kind, e, sees)
	}
	main, shown, err := w.entry(&e.Entry, sees)
	if err != nil {
		return nil, err
	}
	d := &stintv1.WatchedDecision{
		Outcome:      e.Outcome,
		Allowed:      e.Allowed,
		DeniedBy:     e.DeniedBy,
		Reason:       e.Reason,
		Tier:         e.Tier,
		Cost:         e.Cost,
		Remaining:    e.Remaining,
		ShadowDenied: e.ShadowDenied,
		Replayed:     e.Replayed,
		Cached:       e.Cached,
		Position:     &stintv1.Position{Shard: e.Shard, Epoch: e.Epoch, Seq: e.Seq},
		Node:         e.Node,
		Token:        e.Token,
		Protocol:     e.Protocol,
		Duration:     durationpb.New(time.Duration(e.DurationMicros) * time.Microsecond),
		TraceId:      e.TraceID,
		Weight:       e.Weight,
	}
	if e.RetryAfterUS > 0 {
		d.RetryAfter = durationpb.New(time.Duration(e.RetryAfterUS) * time.Microsecond)
	}
	for i := range e.Others {
		other, otherShown, err := w.entry(&e.Others[i], sees)
		if err != nil {
			return nil, err
		}
		if shown = shown && otherShown; other != nil {
			d.Others = append(d.Others, other)
		}
	}
	if shown {
		d.DecisionId = e.DecisionID
	}
	m := &stintv1.Event{Kind: kind, At: timestamppb.New(e.At), Namespace: e.Namespace, Decision: d}
	if main != nil {
		m.Policy, m.Key, m.Hashed = main.Policy, main.Key, main.Hashed
	}
	return m, nil
}

// happening returns an event other than a decision, or nil if the client may not see it.
func (w *watch) happening(kind stintv1.EventKind, e *decisions.Record, sees *sight) (*stintv1.Event, error) {
	key, shown, err := w.entry(&e.Entry, sees)
	//mutant:changes-shown-under-hashes
	if err != nil || key == nil || !shown && e.Kind == decisions.Change { // its texts may name the key
		return nil, err
	}
	m := &stintv1.Event{
		Kind:      kind,
		At:        timestamppb.New(e.At),
		Namespace: e.Namespace,
		Policy:    key.Policy,
		Key:       key.Key,
		Hashed:    key.Hashed,
	}
	switch h := e.Happened; {
	case h.Fired != nil:
		m.Threshold = firedMessage(h.Fired)
		m.Threshold.Key = ""
	case h.Lockout != nil:
		m.Lockout = &stintv1.BegunLockout{Level: h.Lockout.Level, BlockedUntil: optionalTimestamp(h.Lockout.Until)}
	case h.Change != nil:
		m.Change = auditMessage(h.Change)
		m.Change.Key = key.Key
	}
	return m, nil
}

// entry returns one key of an event for the client, or nil if the client may not even see the hash. shown reports
// whether it sees the key.
func (w *watch) entry(e *decisions.Entry, sees *sight) (m *stintv1.WatchedEntry, shown bool, err error) {
	key, hashed, err := w.keyOf(sees, e.Policy, e.Key)
	if err != nil || key == "" {
		return nil, false, err
	}
	if !hashed && w.asked != "" && key == w.filter.Key {
		key = w.asked
	}
	return &stintv1.WatchedEntry{Policy: e.Policy, Tier: e.Tier, Key: key, Hashed: hashed, Cost: e.Cost}, !hashed, nil
}

var eventKinds = map[decisions.Kind]stintv1.EventKind{
	decisions.Denied:       stintv1.EventKind_EVENT_KIND_DENIED,
	decisions.Allowed:      stintv1.EventKind_EVENT_KIND_ALLOWED,
	decisions.ShadowDenied: stintv1.EventKind_EVENT_KIND_SHADOW_DENIED,
	decisions.Settled:      stintv1.EventKind_EVENT_KIND_SETTLED,
	decisions.Threshold:    stintv1.EventKind_EVENT_KIND_THRESHOLD,
	decisions.Lockout:      stintv1.EventKind_EVENT_KIND_LOCKOUT,
	decisions.Change:       stintv1.EventKind_EVENT_KIND_AUDIT,
}

// watchWanted reads a request.
func watchWanted(m *stintv1.WatchRequest) (f decisions.Filter, err error) {
	namespace, wrong := namespaceOf(m.Namespace)
	f = decisions.Filter{Namespace: namespace, Policies: slices.Clone(m.Policies), Key: m.Key, KeyPrefix: m.KeyPrefix}
	err = cmp.Or(wrong, checkPolicies(m.Policies, decisions.PoliciesMax),
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
