package check

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
)

// History judges everything one shard decided, told in the order of its log: first by the place of the entry, then by
// the order of the requests in it. It replays the decisions on Models and remembers ids the plain way, so whatever the
// shard answered, counted or forgot differently shows at the first decision that differs. (SEMANTICS G1-G3, G5-G7.)
//
// A History is used by one goroutine at a time.
type History struct {
	policies map[string]Policy
	counters map[Charge][]*Model // by policy and key, with Cost 0: one Model for each limit
	ids      map[string]remembered
	last     Place
	index    uint32 // of the newest counted decision of the last place
	told     int    // decisions so far
}

// Policy is what a History must know of a policy: its limits in the order of the answers, and how long ids live.
type Policy struct {
	Limits    []limit.Limit
	Retention limit.Span
}

// Place is an entry of the shard's log and the shard time it carries.
type Place struct {
	Epoch, Seq uint64
	At         limit.Time
}

// Charge is one (policy, key) a request names, and what it costs.
type Charge struct {
	Policy, Key string
	Cost        uint64
}

// Op is what was asked for.
type Op uint8

// The operations.
const (
	Take  Op = iota + 1 // decide and count, all or nothing
	Peek                // decide without counting
	Get                 // the state of the limits
	Reset               // put the keys back to rest
)

// Decided is one request and what its shard said.
type Decided struct {
	Place   Place // of the entry that covers the answer
	Op      Op
	ID      string // idempotency id; "" none
	Charges []Charge
	Reused  bool   // the answer was that the id belongs to another request; Answer is empty then
	Answer  Answer // as it was given
}

// Answer is a decision.
type Answer struct {
	Place      Place  // of the entry in which it was decided first
	Index      uint32 // from 1, among what that entry counted; 0: nothing was counted
	Allowed    bool
	Replayed   bool
	RetryAfter limit.Span
	Verdicts   []limit.Verdict // of every limit of every charge, in their order
}

type remembered struct {
	charges []Charge
	op      Op
	answer  Answer
	until   limit.Time
}

// searched says how many decisions pass between two whose instants (retry after, reset at) are searched for too. Every
// other number is compared on every decision.
const searched = 32

// NewHistory makes the History of a shard that never saw a request.
func NewHistory(policies map[string]Policy) *History {
	return &History{policies: policies, counters: make(map[Charge][]*Model), ids: make(map[string]remembered)}
}

// Decide takes the next decision, and says what is wrong with it. After an error the History is of no more use.
func (h *History) Decide(d *Decided) error {
	h.told++
	if err := h.order(d.Place); err != nil {
		return err
	}
	if d.ID != "" {
		if r, ok := h.ids[d.ID]; ok && d.Place.At < r.until {
			return h.again(d, r)
		}
	}
	switch {
	case d.Reused:
		return fmt.Errorf("id %q was refused as used for another request; it was never counted, or is forgotten", d.ID)
	case d.Answer.Replayed:
		return fmt.Errorf("id %q was answered from a record; it was never counted, or is forgotten", d.ID)
	case d.Answer.Place != d.Place:
		return fmt.Errorf("a new decision of %v says that it was made at %v", d.Place, d.Answer.Place)
	}
	if err := h.judge(d); err != nil {
		return err
	}
	return h.counted(d)
}

// order holds that entries only go forward, and time with them.
func (h *History) order(p Place) error {
	last := h.last
	if p == last {
		return nil
	}
	if p.Epoch < last.Epoch || p.Epoch == last.Epoch && p.Seq <= last.Seq {
		return fmt.Errorf("an entry at %v after one at %v", p, last)
	}
	if p.At <= last.At {
		return fmt.Errorf("shard time at %v does not lie after that at %v", p, last)
	}
	h.last, h.index = p, 0
	return nil
}

// again holds that a remembered id is answered as before, and its reuse refused.
func (h *History) again(d *Decided, r remembered) error {
	same := d.Op == r.op && slices.Equal(d.Charges, r.charges)
	switch {
	case d.Reused == same:
		return fmt.Errorf("id %q: same request is %v, refused as another one is %v", d.ID, same, d.Reused)
	case d.Reused:
		return nil
	case !d.Answer.Replayed:
		return fmt.Errorf("id %q was counted at %v and decided again at %v", d.ID, r.answer.Place, d.Place)
	}
	return d.Answer.differs(r.answer)
}

// differs compares a replay with what it must repeat.
func (a Answer) differs(original Answer) error {
	a.Replayed = original.Replayed
	if a.Place != original.Place || a.Index != original.Index || a.Allowed != original.Allowed ||
		a.RetryAfter != original.RetryAfter || !slices.Equal(a.Verdicts, original.Verdicts) {
		return fmt.Errorf("a replay says %+v, the original said %+v", a, original)
	}
	return nil
}

// counted checks the number of a decision and remembers its id.
func (h *History) counted(d *Decided) error {
	if counts := d.Op == Reset || d.Op == Take && d.Answer.Allowed; !counts {
		if d.Answer.Index != 0 {
			return fmt.Errorf("nothing was counted at %v, yet it has index %d", d.Place, d.Answer.Index)
		}
		return nil
	}
	h.index++
	if d.Answer.Index != h.index {
		return fmt.Errorf("the counted decision %d of %v has index %d", h.index, d.Place, d.Answer.Index)
	}
	if d.ID == "" {
		return nil
	}
	var retention limit.Span
	for _, c := range d.Charges {
		retention = max(retention, h.policies[c.Policy].Retention)
	}
	h.ids[d.ID] = remembered{charges: d.Charges, op: d.Op, answer: d.Answer, until: d.Place.At + limit.Time(retention)}
	return nil
}

// judge decides a request once more, on the Models, and compares.
func (h *History) judge(d *Decided) error {
	if d.Op == Reset {
		for _, c := range d.Charges {
			delete(h.counters, Charge{Policy: c.Policy, Key: c.Key})
		}
	}
	allowed := h.admits(d)
	if d.Op == Take && allowed {
		for _, c := range d.Charges {
			for _, m := range h.models(c) {
				m.memory.count(c.Cost, d.Place.At)
			}
		}
	}
	if d.Answer.Allowed != allowed {
		return fmt.Errorf("allowed is %v, must be %v", d.Answer.Allowed, allowed)
	}
	return h.compare(d, allowed)
}

func (h *History) admits(d *Decided) bool {
	if d.Op != Take && d.Op != Peek {
		return true
	}
	for _, c := range d.Charges {
		for _, m := range h.models(c) {
			if !m.Admits(c.Cost, d.Place.At) {
				return false
			}
		}
	}
	return true
}

// compare holds the numbers of an answer against the Models, which have counted it by now.
func (h *History) compare(d *Decided, allowed bool) error {
	at, rest := d.Place.At, d.Answer.Verdicts
	var waits []limit.Span
	for _, c := range d.Charges {
		for n, m := range h.models(c) {
			if len(rest) == 0 {
				return fmt.Errorf("%d verdicts are fewer than its limits", len(d.Answer.Verdicts))
			}
			want, got := h.expect(m, c.Cost, at, d.Op == Peek || d.Op == Take && !allowed), rest[0]
			if h.told%searched != 0 {
				want.ResetAt, want.RetryAfter = got.ResetAt, got.RetryAfter
			}
			if got != want {
				return fmt.Errorf("limit %d of policy %s, key %s: answered %+v, must be %+v", n, c.Policy, c.Key, got, want)
			}
			waits = append(waits, want.RetryAfter)
			rest = rest[1:]
		}
	}
	if len(rest) != 0 {
		return fmt.Errorf("%d verdicts are more than its limits", len(d.Answer.Verdicts))
	}
	wait := slices.Max(waits)
	if slices.Contains(waits, limit.Never) {
		wait = limit.Never
	}
	if !allowed && d.Answer.RetryAfter != wait {
		return fmt.Errorf("retry after is %d, the limits say %d", d.Answer.RetryAfter, wait)
	}
	return nil
}

// expect is what a limit must say; the instants are searched for only now and then.
func (h *History) expect(m *Model, cost uint64, at limit.Time, peek bool) limit.Verdict {
	if h.told%searched == 0 {
		if peek {
			return m.Peek(cost, at)
		}
		return m.Status(at)
	}
	v := m.numbers(at)
	v.Allowed = !peek || m.Admits(cost, at)
	return v
}

func (h *History) models(c Charge) []*Model {
	c.Cost = 0
	models, ok := h.counters[c]
	if !ok {
		for _, l := range h.policies[c.Policy].Limits {
			models = append(models, New(l))
		}
		h.counters[c] = models
	}
	return models
}

// Ledger is what the clients of one key know of it. The limit must be one that never gives anything back.
type Ledger struct {
	Acked   uint64 // units that were answered as admitted, each operation once
	Unknown uint64 // units of operations of which nobody knows whether they were counted
}

// Settle compares it with what the shard says in the end: every admission that was answered is counted, and nothing
// besides but what may have been.
func (l Ledger) Settle(final uint64) error {
	if final < l.Acked || final > l.Acked+l.Unknown {
		return fmt.Errorf("%d units are counted: answered as admitted were %d, unknown are %d", final, l.Acked, l.Unknown)
	}
	return nil
}

// Fingerprints holds that all replicas of a shard are equal at every index of the log at which they were seen.
type Fingerprints map[uint64]uint64

// Seen takes the fingerprint of one replica after the entry at index.
func (f Fingerprints) Seen(index, sum uint64) error {
	if known, ok := f[index]; ok && known != sum {
		return fmt.Errorf("after entry %d one replica has fingerprint %016x, another %016x", index, known, sum)
	}
	f[index] = sum
	return nil
}
