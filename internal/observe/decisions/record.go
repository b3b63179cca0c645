package decisions

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Kind is the kind of an event, in the words of the decision log.
type Kind string

// The kinds.
const (
	Denied       Kind = "denied"
	Allowed      Kind = "allowed"
	ShadowDenied Kind = "shadow_denied" // allowed, and a limit or policy in shadow would have denied
	Settled      Kind = "settled"       // a hold was settled, or a decision refunded

	// The kinds below are no decisions: Record.Happened describes them. The owner of the key reports them.
	Threshold Kind = "threshold" // a key has reached a threshold
	Lockout   Kind = "lockout"   // a ladder began to block a key
	Change    Kind = "change"    // a key was changed by hand
)

var kinds = []Kind{Denied, Allowed, ShadowDenied, Settled, Threshold, Lockout, Change}

// bit returns a bit for the kind, or 0 if this release does not know it.
func (k Kind) bit() uint8 {
	if i := slices.Index(kinds, k); i >= 0 {
		return 1 << i
	}
	return 0
}

// Entry is one key of a decision.
type Entry struct {
	Policy  string `json:"policy"` // "inline" if the limits came with the request
	Tier    string `json:"tier,omitempty"`
	Key     string `json:"key,omitempty"`
	KeyHash string `json:"key_hash,omitempty"` // instead of Key, in a log that hides keys
	Cost    uint64 `json:"cost"`
}

// Record is one decision, or another event of a key, for readers and the decision log. It is not changed after Bus.Put.
type Record struct {
	At        time.Time `json:"at"` // shard time
	Kind      Kind      `json:"kind"`
	Outcome   string    `json:"outcome"` // as in the metric stint_decisions_total
	Namespace string    `json:"namespace"`
	Entry               // the first entry that a limit denied, else the first one
	Others    []Entry   `json:"others,omitempty"`

	Allowed        bool     `json:"allowed"`
	DeniedBy       []string `json:"denied_by,omitempty"`
	Reason         string   `json:"reason,omitempty"`
	Remaining      *uint64  `json:"remaining,omitempty"`      // nil if no limit can deny
	RetryAfterUS   int64    `json:"retry_after_us,omitempty"` // 0 for no wait, or one that does not end
	ShadowDenied   bool     `json:"shadow,omitempty"`
	Replayed       bool     `json:"replayed,omitempty"`
	Cached         bool     `json:"cached,omitempty"`
	Shard          uint32   `json:"shard"`
	Epoch          uint64   `json:"epoch"`
	Seq            uint64   `json:"seq"`
	DecisionID     string   `json:"decision_id,omitempty"`
	Node           string   `json:"node"`
	Token          string   `json:"token,omitempty"`
	Protocol       string   `json:"protocol"`
	DurationMicros int64    `json:"duration_us"`
	TraceID        string   `json:"trace_id,omitempty"`
	Weight         uint64   `json:"weight"` // of a line in a log; 1 for readers

	// Happened is an event of a key other than a decision, committed by its owner; nil for a decision.
	Happened *shard.Happening `json:"happened,omitempty"`
}

// waitMax is the longest wait that JSON can express: about 10,000 years.
const waitMax limit.Span = 315_576_000_000 * 1_000_000

// record makes the record of a decision.
func (e *Event) record(node string, a *Asked, i int) *Record {
	r, d := &a.Requests[i], &a.Results[i].Decision
	main := mainEntry(r, d)
	of := &Record{
		At:           time.UnixMicro(int64(d.DecidedAt) + int64(d.Age)).UTC(),
		Kind:         kindOf(r, d),
		Outcome:      Outcome(r, d),
		Namespace:    r.Namespace,
		Entry:        a.entry(i, main),
		Allowed:      d.Allowed,
		DeniedBy:     DeniedBy(d),
		Remaining:    Remaining(d),
		ShadowDenied: d.ShadowDenied,
		Replayed:     d.Replayed,
		Cached:       d.Repeated(),
		Shard:        uint32(d.Position.Shard),
		Epoch:        d.Position.Epoch,
		Seq:          d.Position.Seq,
		Node:         node,
		Token:        e.Caller,
		Protocol:     e.Protocol,
		TraceID:      e.TraceID,

		DurationMicros: e.Took.Microseconds(),
	}
	if d.DecidedAt == 0 { // no shard has decided
		of.At = e.Began.Add(e.Took).UTC()
	}
	if d.RetryAfter > 0 && d.RetryAfter <= waitMax {
		of.RetryAfterUS = int64(d.RetryAfter)
	}
	if !d.Allowed && a.Policies != nil {
		of.Reason = Reason(a.Policies, r, d)
	}
	if e.IDOf != nil && r.Op != shard.Reserve && r.Op != shard.Settle { // the id of a hold is for its caller alone
		of.DecisionID = e.IDOf(a.Policies, r, d)
	}
	for j := range r.Entries {
		if j != main {
			of.Others = append(of.Others, a.entry(i, j))
		}
	}
	return of
}

// entry returns an entry of a request with the key as stored.
func (a *Asked) entry(i, j int) Entry {
	e := &a.Stored[i].Entries[j]
	return Entry{Policy: PolicyName(e), Tier: e.Tier, Key: e.Key, Cost: e.Cost}
}

func kindOf(r *shard.Request, d *shard.Decision) Kind {
	switch {
	case r.Op == shard.Settle:
		return Settled
	case !d.Allowed:
		return Denied
	case d.ShadowDenied:
		return ShadowDenied
	}
	return Allowed
}

// mainEntry returns the index of the main entry of a record.
func mainEntry(r *shard.Request, d *shard.Decision) int {
	if d.Allowed {
		return 0
	}
	for i := range d.Limits {
		if s := &d.Limits[i]; Stands(s) {
			same := func(e shard.Entry) bool { return e.Policy == s.Policy && e.Key == s.Key }
			return max(0, slices.IndexFunc(r.Entries, same))
		}
	}
	return 0
}

// Entries lists all entries, the main one first.
func (e *Record) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		more := yield(&e.Entry)
		for i := 0; more && i < len(e.Others); i++ {
			more = yield(&e.Others[i])
		}
	}
}

// size estimates the event's size as JSON in bytes, from above.
func (e *Record) size() (n int) {
	n = 512 + len(e.DecisionID) + 6*(len(e.Namespace)+len(e.Reason)+len(e.Token))
	for _, name := range e.DeniedBy {
		n += 3 + len(name)
	}
	if h := e.Happened; h != nil {
		n += 1024 + 6*(len(h.Namespace)+2*len(h.Policy)+2*len(h.Key))
		if c := h.Change; c != nil {
			n += 6 * (len(c.Namespace) + len(c.Policy) + len(c.Key))
			n += 6 * (len(c.Actor) + len(c.Before) + len(c.After) + len(c.Note))
		}
	}
	for one := range e.Entries() {
		n += 64 + 6*(len(one.Policy)+len(one.Tier)+len(one.Key))
	}
	return n
}

// Filter selects events; an empty field selects all.
type Filter struct {
	Namespace string   `json:"namespace"`
	Policies  []string `json:"policies,omitempty"`
	Kinds     []Kind   `json:"kinds,omitempty"`
	Key       string   `json:"key,omitempty"`
	KeyPrefix string   `json:"key_prefix,omitempty"`
}

// PoliciesMax bounds the policies in a Filter, so that it fits into a message between nodes.
const PoliciesMax = 16

// Wants reports whether the filter selects an event: all conditions must hold for one of its keys.
func (f *Filter) Wants(e *Record) bool {
	if e.Namespace != f.Namespace || len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
		return false
	}
	for one := range e.Entries() {
		if f.WantsEntry(one) {
			return true
		}
	}
	return false
}

// WantsEntry reports whether the filter selects one of an event's keys.
func (f *Filter) WantsEntry(e *Entry) bool {
	return (len(f.Policies) == 0 || slices.Contains(f.Policies, e.Policy)) && (f.Key == "" || f.Key == e.Key) &&
		strings.HasPrefix(e.Key, f.KeyPrefix)
}

// bits returns the kinds that the filter selects.
func (f *Filter) bits() (all uint8) {
	for _, k := range f.Kinds {
		all |= k.bit()
	}
	if len(f.Kinds) == 0 {
		return 0xff
	}
	return all
}

// Batch is a message of events from one node to another.
type Batch struct {
	Events []*Record `json:",omitempty"`
	Missed uint64    `json:",omitempty"` // events lost by the reader on the sending node
}

// batchBytes bounds a Batch: half of what a message between nodes may have.
const batchBytes = 1 << 20

// Cut takes as many events as fit into one batch off the front.
func Cut(events []*Record) (batch, rest []*Record) {
	n := 0
	for i, e := range events {
		if n += e.size(); n > batchBytes && i > 0 {
			return events[:i], events[i:]
		}
	}
	return events, nil
}
