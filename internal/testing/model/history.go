package model

import (
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
	revised  map[limitName]limit.Time // when a revision last changed the numbers of a limit; 0 if not known
	counters map[address]*counter
	ids      map[id]remembered
	ended    map[Target]ended             // what was settled, but for Extend
	taken    map[Target]map[address]taken // taken by decisions that made no hold
	fired    []Fired                      // all that ever fired, but for forgotten keys
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

type remembered struct {
	request string // Decided.request
	answer  Answer
	until   limit.Time // from then on the id is new
}

// taken is what a decision took from one counter.
type taken struct {
	units uint64
	by    []string // limits that counted the units: only they give any back
}

type ended struct {
	action string // Settlement.shown
	answer Answer
	until  limit.Time // from then on a repetition is HoldEnded, too
}

// searched is the interval, in decisions, at which the instants (retry after, reset at) are searched for too. Every
// other number is compared on every decision.
const searched = 32

// NewHistory returns the History of a shard without any request.
func NewHistory(policies ...*policy.Policy) *History {
	h := &History{counters: make(map[address]*counter), ids: make(map[id]remembered), ended: make(map[Target]ended),
		taken: make(map[Target]map[address]taken), revised: make(map[limitName]limit.Time)}
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
				h.revised[limitName{p.Name, l.Name}] = at
			}
		}
	}
	for of := range h.revised {
		if h.policies[of.policy] == nil {
			delete(h.revised, of)
		}
	}
}

// limitName is a limit of a policy.
type limitName struct{ policy, limit string }

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
