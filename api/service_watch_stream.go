package api

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/shard"
)

// watchStream is one stream.
type watchStream struct {
	watchService
	filter  decisions.Filter // its Key is in the counted form, from findKeys on; not changed once events is open
	asked   string           // the requested key, as the client has sent it; may be empty
	send    func(*stintv1.Event) error
	events  *decisions.Reader
	missing atomic.Pointer[[]string] // nil until the other nodes have been tried
	told    *[]string                // the nodes last reported to the client; nil if none were
	quiet   time.Time                // the silence of the stream counts from here: when something was sent last
}

// findKeys refuses to look for keys that the caller may not see, and translates the requested key into its counted
// form.
func (w *watchStream) findKeys(sees *keyVisibility) error {
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
func (w *watchStream) sendWaiting(sees *keyVisibility) (sent int, err error) {
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
func (w *watchStream) message(e *decisions.Record, sees *keyVisibility) (*stintv1.Event, error) {
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
func (w *watchStream) happening(
	kind stintv1.EventKind, e *decisions.Record, sees *keyVisibility,
) (*stintv1.Event, error) {
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
func (w *watchStream) entry(e *decisions.Entry, sees *keyVisibility) (m *stintv1.WatchedEntry, shown bool, err error) {
	key, hashed, err := w.visibleKey(sees, e.Policy, e.Key)
	if err != nil || key == "" {
		return nil, false, err
	}
	if !hashed && w.asked != "" && key == w.filter.Key {
		key = w.asked
	}
	return &stintv1.WatchedEntry{Policy: e.Policy, Tier: e.Tier, Key: key, Hashed: hashed, Cost: e.Cost}, !hashed, nil
}

// eventKinds translates all kinds that this release knows.
var eventKinds = map[decisions.Kind]stintv1.EventKind{
	decisions.Denied:       stintv1.EventKind_EVENT_KIND_DENIED,
	decisions.Allowed:      stintv1.EventKind_EVENT_KIND_ALLOWED,
	decisions.ShadowDenied: stintv1.EventKind_EVENT_KIND_SHADOW_DENIED,
	decisions.Settled:      stintv1.EventKind_EVENT_KIND_SETTLED,
	decisions.Threshold:    stintv1.EventKind_EVENT_KIND_THRESHOLD,
	decisions.Lockout:      stintv1.EventKind_EVENT_KIND_LOCKOUT,
	decisions.Change:       stintv1.EventKind_EVENT_KIND_AUDIT,
}
