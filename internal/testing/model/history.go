package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// History judges everything that one shard decided, in the order of its log: first by the place of the entry, then by
// the order of the requests in it. It decides every request a second time, on Models, lists of holds and lists of
// deeds, in the plainest way there is, and remembers ids and ended holds just as plainly. So a wrong answer, count or
// omission of the shard shows at the first decision that differs. (G1-G3, G5-G7, G9.)
//
// It shares the data of a policy with the shard, but none of its code. A History must be used by one goroutine at a
// time.
type History struct {
	Thorough bool // searches for the instants on every decision
	policies map[string]*policy.Policy
	revised  map[place]limit.Time // when a revision last changed the numbers of a limit; 0 if not known
	counters map[address]*counter
	ids      map[id]remembered
	ended    map[Target]ended
	taken    map[Target]map[address]taken // taken by decisions that made no hold
	fired    []Fired
	last     Place
	index    uint32 // of the newest counted decision of the last place
	told     int    // decisions so far
}

// id is an idempotency id: each slot has ids of its own.
type id struct {
	slot uint32
	text string
}

// address is one policy's counter of a key.
type address struct{ policy, key string }

// Place is an entry of the shard's log, with its shard time.
type Place struct {
	Epoch, Seq uint64
	At         limit.Time
}

// Charge is one (policy, key) of a request, with its cost.
type Charge struct {
	Policy, Key string
	Cost        uint64
	Tier        string
	// Inline is a policy from the request in place of a named one, with no other numbers. Its limits have their own
	// counters.
	Inline *policy.Policy
}

// Op is the operation of a request.
type Op uint8

// The operations. Their numbers are those of package shard, which is judged here and not imported.
const (
	Take           Op = 1 // decide and count, all or nothing
	Peek           Op = 2 // decide without counting
	Get            Op = 3 // the state of the limits
	Reset          Op = 4 // reset the keys to rest
	Count          Op = 8 // count, regardless of the limits
	Partial        Op = 9 // take as much as fits
	Reserve        Op = 10
	Settle         Op = 11
	SetUsed        Op = 12
	AddUsed        Op = 13
	Block          Op = 14
	Unblock        Op = 15
	PutOverride    Op = 16
	DeleteOverride Op = 17
	Tally          Op = 25
	ReadTally      Op = 26
	Forget         Op = 27 // end everything that is kept of the first charge's key, under any policy
	CorrectUsage   Op = 32 // add units to a period of the key's bill, in a figure of their own
)

// deciding reports whether limits and blocks can deny the operation.
func (o Op) deciding() bool { return o == Take || o == Peek || o == Partial || o == Reserve }

// Decided is one request with its shard's answer.
type Decided struct {
	Place   Place // of the entry that covers the answer
	Op      Op
	ID      string // idempotency id; may be empty
	Slot    uint32 // of the request; each slot has ids of its own
	Charges []Charge
	Limit   string // Reset, SetUsed, AddUsed: applies only to the limit of this name

	TTL        limit.Span      // Reserve
	OnExpire   policy.OnExpire // Reserve
	Settlement *Settlement     // Settle
	Amount     int64           // SetUsed, AddUsed, CorrectUsage
	Until      limit.Time      // Block
	Override   *policy.Override
	Tally      *TallyTerms // Tally
	Correction *Correction // CorrectUsage

	Refused Refusal // the answer was an error; Answer is empty then
	Answer  Answer  // as the shard gave it
}

// Refusal is an error that a History expects for certain requests.
type Refusal uint8

// The refusals.
const (
	NotRefused Refusal = iota
	IDReused           // the id belongs to another request
	HoldEnded          // the hold or decision was settled differently, has expired, or is too old
	OverQuota          // a commit above the hold does not fit
	TooLarge           // a tally would need more than 64 bits
	KeyUnknown         // the policy refuses keys that have no override
	NoPeriod           // there is no such period to correct
)

// String names the refusal.
func (r Refusal) String() string {
	return [...]string{"no", "id reused", "hold ended", "over quota", "too large", "key unknown", "no period"}[r]
}

// Settlement is the request of a Settle. The numbers of Action and Overage are those of package shard.
type Settlement struct {
	Target  Target
	Action  Action
	Actual  []uint64
	Overage Overage
	TTL     limit.Span
}

// Target names a hold or a decision by its place.
type Target struct {
	Hold  bool
	Place Place
	Index uint32
}

// Action is what a settlement does.
type Action uint8

// The actions.
const (
	Commit  Action = 1
	Cancel  Action = 2
	Extend  Action = 3
	Success Action = 4
	Failed  Action = 5
)

// Overage is how to treat spending above a hold.
type Overage uint8

// The overages.
const (
	Clamp  Overage = 0
	Debt   Overage = 1
	Reject Overage = 2
)

// Answer is a decision.
type Answer struct {
	Place        Place  // of the entry that decided it first
	Index        uint32 // from 1, among the counted decisions of that entry; 0 if nothing was counted
	Allowed      bool
	ShadowDenied bool
	Challenged   bool // not allowed, and only soft limits say no
	Replayed     bool
	RetryAfter   limit.Span
	HoldExpires  limit.Time
	Limits       []Status // for every limit of every charge, in their order; none for a tally
	Tallied      *Tallied // Tally and ReadTally
}

// Status is one limit of one charge in an answer.
type Status struct {
	Limit             string
	Quota             uint64
	Unlimited, Shadow bool
	Soft              bool
	Held, Granted     uint64
	LockoutLevel      uint32
	BlockedUntil      limit.Time
	Blocked           bool
	ByHand            bool
	limit.Verdict
}

type remembered struct {
	request string
	answer  Answer
	until   limit.Time
}

// taken is what a decision took from one counter.
type taken struct {
	units uint64
	by    []string // limits that counted the units: only they give any back
}

type ended struct {
	action string
	answer Answer
	until  limit.Time
}

// searched is the interval, in decisions, at which the instants (retry after, reset at) are searched for too. Every
// other number is compared on every decision.
const searched = 32

// NewHistory returns the History of a shard without any request.
func NewHistory(policies ...*policy.Policy) *History {
	h := &History{counters: make(map[address]*counter), ids: make(map[id]remembered), ended: make(map[Target]ended),
		taken: make(map[Target]map[address]taken), revised: make(map[place]limit.Time)}
	h.Adopt(0, policies...)
	return h
}

// Adopt makes these the policies from an instant on. 0 means that the shard does not record when, so a change takes
// place when a request that may count first meets it.
func (h *History) Adopt(at limit.Time, policies ...*policy.Policy) {
	before := h.policies
	h.policies = make(map[string]*policy.Policy, len(policies))
	for _, p := range policies {
		h.policies[p.Name] = p
		for _, l := range p.Limits {
			if renumbered(before[p.Name], p, l.Name) {
				h.revised[place{p.Name, l.Name}] = at
			}
		}
	}
	for of := range h.revised {
		if h.policies[of.policy] == nil {
			delete(h.revised, of)
		}
	}
}

// place is a limit of a policy.
type place struct{ policy, limit string }

// renumbered reports whether a limit has other numbers than before, without a tier or under one that existed.
func renumbered(old, p *policy.Policy, name string) bool {
	if old == nil {
		return true
	}
	differs := func(before, after []policy.Limit) bool {
		is := func(l policy.Limit) bool { return l.Name == name }
		i, j := slices.IndexFunc(before, is), slices.IndexFunc(after, is)
		return i < 0 || !same(before[i].Limit, after[j].Limit)
	}
	if differs(old.Limits, p.Limits) || differs(resolve(old, "", nil), resolve(p, "", nil)) {
		return true
	}
	for tier := range old.Tiers {
		if _, there := p.Tiers[tier]; !there || differs(resolve(old, tier, nil), resolve(p, tier, nil)) {
			return true
		}
	}
	return false
}

// Decide processes the next decision and returns an error if it is wrong. After an error the History is unusable.
func (h *History) Decide(d *Decided) error {
	h.told++
	if err := h.order(d.Place); err != nil {
		return err
	}
	if d.ID != "" {
		if r, ok := h.ids[id{d.Slot, d.ID}]; ok && d.Place.At < r.until {
			return h.again(d, r)
		}
	}
	want, refused := h.decide(d)
	switch {
	case d.Refused == IDReused && refused != IDReused:
		return fmt.Errorf("id %q was refused as used for another request; it was never counted, or is forgotten", d.ID)
	case d.Refused != refused:
		return fmt.Errorf("refused: %v, must be %v (%+v)", d.Refused, refused, want)
	case refused != NotRefused:
		return nil
	case d.Answer.Replayed && !want.Replayed:
		return fmt.Errorf("id %q was answered from a record; it was never counted, or is forgotten", d.ID)
	case d.Answer.Place != want.Place:
		return fmt.Errorf("a decision of %v says that it was made at %v", want.Place, d.Answer.Place)
	}
	if err := h.compare(&d.Answer, &want); err != nil {
		return err
	}
	if d.Op == Settle && !want.Replayed && d.Settlement.Action != Extend {
		end := h.ended[d.Settlement.Target]
		end.answer = d.Answer
		h.ended[d.Settlement.Target] = end
	}
	if d.ID != "" && want.Index != 0 {
		_, longest := h.retentions(d)
		h.ids[id{d.Slot, d.ID}] = remembered{d.request(), d.Answer, d.Place.At + limit.Time(longest)}
	}
	return nil
}

// order checks that entries only go forward, and time with them.
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

// request is everything that an id stands for, as text.
func (d *Decided) request() string {
	all := []any{d.Op, d.Limit, d.TTL, d.OnExpire, d.Amount, d.Until, d.Tally, d.Settlement, d.Correction, d.Override}
	for _, c := range d.Charges {
		all = append(all, c.Policy, c.Key, c.Cost, c.Tier)
		if c.Inline != nil {
			all = append(all, c.Inline.Limits)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it is text and numbers
	}
	return string(text)
}

// again checks that a remembered id is answered as before, and that its reuse for another request is refused.
func (h *History) again(d *Decided, r remembered) error {
	same, reused := d.request() == r.request, d.Refused == IDReused
	switch {
	case reused == same:
		return fmt.Errorf("id %q: same request is %v, refused as another one is %v", d.ID, same, reused)
	case reused:
		return nil
	case d.Refused != NotRefused:
		return fmt.Errorf("id %q was counted at %v and is refused at %v: %v", d.ID, r.answer.Place, d.Place, d.Refused)
	case !d.Answer.Replayed:
		return fmt.Errorf("id %q was counted at %v and decided again at %v", d.ID, r.answer.Place, d.Place)
	}
	return d.Answer.differs(r.answer)
}

// differs compares a replay with the original answer.
func (a Answer) differs(original Answer) error {
	a.Replayed = original.Replayed
	if a.Place != original.Place || a.Index != original.Index || a.Allowed != original.Allowed ||
		a.ShadowDenied != original.ShadowDenied || a.Challenged != original.Challenged ||
		a.RetryAfter != original.RetryAfter ||
		a.HoldExpires != original.HoldExpires || !slices.Equal(a.Limits, original.Limits) ||
		!sameTally(a.Tallied, original.Tallied) {
		return fmt.Errorf("a replay says %+v, the original said %+v", a, original)
	}
	return nil
}

func sameTally(a, b *Tallied) bool { return a == b || a != nil && b != nil && *a == *b }

// compare compares an answer with the expected one. It skips instants that were not searched for.
func (h *History) compare(got, want *Answer) error {
	switch {
	case want.Replayed:
		if !got.Replayed {
			return fmt.Errorf("what was settled before is settled again: %+v", *got)
		}
		return got.differs(*want)
	case got.Allowed != want.Allowed:
		return fmt.Errorf("allowed is %v, must be %v", got.Allowed, want.Allowed)
	case got.Index != want.Index && want.Index == 0:
		return fmt.Errorf("nothing was counted, yet it has index %d", got.Index)
	case got.Index != want.Index:
		return fmt.Errorf("the counted decision %d of %v has index %d", want.Index, want.Place, got.Index)
	case got.ShadowDenied != want.ShadowDenied:
		return fmt.Errorf("denied in shadow is %v, must be %v", got.ShadowDenied, want.ShadowDenied)
	case got.Challenged != want.Challenged:
		return fmt.Errorf("challenged is %v, must be %v", got.Challenged, want.Challenged)
	case got.HoldExpires != want.HoldExpires:
		return fmt.Errorf("the hold expires at %d, must at %d", got.HoldExpires, want.HoldExpires)
	case !sameTally(got.Tallied, want.Tallied):
		return fmt.Errorf("the tally is %+v, must be %+v", got.Tallied, want.Tallied)
	case len(got.Limits) < len(want.Limits):
		return fmt.Errorf("%d statuses are fewer than its limits", len(got.Limits))
	case len(got.Limits) > len(want.Limits):
		return fmt.Errorf("%d statuses are more than its limits", len(got.Limits))
	}
	for i, w := range want.Limits {
		g := got.Limits[i]
		if !h.searches() {
			w.ResetAt = g.ResetAt
		}
		if !w.Allowed && !h.searches() {
			w.RetryAfter = g.RetryAfter
		}
		if g != w {
			return fmt.Errorf("limit %d, %s: answered %+v, must be %+v", i, w.Limit, g, w)
		}
	}
	if got.RetryAfter != want.RetryAfter && (want.Allowed || h.searches()) {
		return fmt.Errorf("retry after is %d, must be %d", got.RetryAfter, want.RetryAfter)
	}
	return nil
}

func (h *History) searches() bool { return h.Thorough || h.told%searched == 0 }

// next returns the index of one more counted decision.
func (h *History) next() uint32 {
	h.index++
	return h.index
}

func (h *History) policyOf(c Charge) *policy.Policy {
	if c.Inline != nil {
		return c.Inline
	}
	return h.policies[c.Policy]
}

// retentions returns the shortest and the longest retention of a request's policies.
func (h *History) retentions(d *Decided) (shortest, longest limit.Span) {
	for i, c := range d.Charges {
		retention := h.policyOf(c).Retention
		if longest = max(longest, retention); i == 0 || retention < shortest {
			shortest = retention
		}
	}
	return shortest, longest
}

// Ledger is what the clients of one key know about it. The limit must be one that never gives anything back.
type Ledger struct {
	Acked   uint64 // units answered as admitted, each operation once
	Unknown uint64 // units of operations with an unknown outcome
}

// Settle compares the ledger with the shard's final count: every admission that was answered must be counted, and
// besides those only operations with an unknown outcome may be.
func (l Ledger) Settle(final uint64) error {
	if final < l.Acked || final > l.Acked+l.Unknown {
		return fmt.Errorf("%d units are counted: answered as admitted were %d, unknown are %d",
			final, l.Acked, l.Unknown)
	}
	return nil
}
