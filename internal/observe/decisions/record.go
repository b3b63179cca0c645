package decisions

import (
	"iter"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Entry is one key of a decision.
type Entry struct {
	Policy  string `json:"policy"`             // "inline" if the limits came with the request
	Tier    string `json:"tier,omitempty"`     // as named by the request
	Key     string `json:"key,omitempty"`      // as it was counted
	KeyHash string `json:"key_hash,omitempty"` // instead of Key, in a log that hides keys
	Cost    uint64 `json:"cost"`
}

// Record is one decision, or another event of a key, for readers and the decision log. It is not changed after Bus.Put.
type Record struct {
	At        time.Time `json:"at"` // shard time; that of this node's clock if no shard has decided
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
	Cached         bool     `json:"cached,omitempty"` // an earlier denial, repeated without asking the owner
	Shard          uint32   `json:"shard"`
	Epoch          uint64   `json:"epoch"`
	Seq            uint64   `json:"seq"`
	DecisionID     string   `json:"decision_id,omitempty"` // never that of a hold, which is for its caller alone
	Node           string   `json:"node"`                  // the one that answered, or that owns a changed key
	Token          string   `json:"token,omitempty"`       // Event.Caller
	Protocol       string   `json:"protocol"`              // Event.Protocol; empty for a change
	DurationMicros int64    `json:"duration_us"`           // of the whole call
	TraceID        string   `json:"trace_id,omitempty"`
	Weight         uint64   `json:"weight"` // of a line in a log; 1 for readers

	// Happened is an event of a key other than a decision, committed by its owner; nil for a decision.
	Happened *shard.Happening `json:"happened,omitempty"`
}

// waitMax is the longest wait that JSON can express: about 10,000 years.
const waitMax limit.Span = 315_576_000_000 * 1_000_000

// record makes the record of the decision on the i-th request.
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
