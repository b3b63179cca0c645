package sim

import (
	"fmt"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Seats have a lifetime limit, and a client gives back the part of a reservation that it did not use. Leases expire by
// themselves.
const (
	seatsQuota             = 60
	leasesQuota            = 4
	seatsTTL    limit.Span = 3600e6
	leaseTTL    limit.Span = 1500e3
)

// settlement is what to settle, and how. Up to two clients settle one decision, each in its own way: one of them is
// answered that it has ended.
type settlement struct {
	of     *op
	action shard.Action
	spent  uint64
	asks   int // of what was taken: how many operations settle it; guarded by world.mu
}

// claim offers what an operation took to all clients for settlement.
func (w *world) claim(o *op) {
	if o.decision.Index == 0 || !o.decision.Allowed || o.asCounted() ||
		o.kind != shard.Reserve && o.kind != shard.Check || o.key.policy != "seats" && o.key.policy != "leases" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = append(w.claims, o)
}

// takeOrSettle makes an operation take something, or settle what any client has taken of the same key.
func (c *client) takeOrSettle(o *op) {
	if o.kind = shard.Reserve; o.key.policy == "seats" && c.chance.IntN(3) == 0 {
		o.kind = shard.Check
	}
	if c.chance.IntN(2) == 0 {
		return
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for i := len(c.w.claims) - 1; i >= 0; i-- {
		of := c.w.claims[i]
		if of.key != o.key || of.asks == 2 || c.chance.IntN(3) == 0 {
			continue
		}
		o.kind, o.cost, o.of, o.action = shard.Settle, of.cost, of, shard.ActionCommit
		o.spent = uint64(c.chance.IntN(int(of.cost + 1)))
		if of.asks == 1 {
			o.action, o.spent = shard.ActionCancel, 0
		}
		of.asks++
		return
	}
}

// sure reports whether the operation may be retried, so that its fate can be learned.
func (o *op) sure() bool { return o.id != "" || o.kind == shard.Settle }

func (o *op) settles() *shard.Settlement {
	d := &o.of.decision
	s := &shard.Settlement{Action: o.action, Target: shard.Target{Hold: o.of.kind == shard.Reserve,
		Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}
	if o.action == shard.ActionCommit {
		s.Actual = []uint64{o.spent}
	}
	return s
}

// judgeSeats checks that what was taken ends once, and that only what was given back comes back.
func judgeSeats(key named, ops []*op) (errs []error) {
	var seen []model.Observed
	names := make(map[*op]uint32)
	for i, o := range ops {
		names[o] = uint32(i + 1)
	}
	for _, o := range ops {
		all := observed([]*op{o})
		switch {
		case o.kind == shard.Settle:
			all = []model.Observed{{Client: o.client, Called: int64(o.called), Returned: int64(o.returned),
				Cost: o.spent, Unknown: o.fate == unknown, Allowed: o.fate == answered, Used: o.used(),
				At: o.decision.DecidedAt, Claim: names[o.of], Settles: true}}
			if o.fate == refused {
				all = nil
			}
		case len(all) == 1 && o.asks > 0:
			all[0].Claim = names[o]
		}
		seen = append(seen, all...)
	}
	for _, o := range placed(ops) {
		if o.used() > seatsQuota {
			errs = append(errs, fmt.Errorf("used is %d of %d: %v", o.used(), seatsQuota, o))
		}
	}
	if err := model.Linearizable(seatsQuota, seen, porcupinePatience); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", key.name, err))
	}
	return errs
}

// judgeLeases checks that every hold counts from its decision until it is settled or expires, to the microsecond, and
// no longer.
func judgeLeases(key named, ops []*op) (errs []error) {
	var unknownUnits uint64
	for _, o := range ops {
		if o.kind == shard.Reserve && o.fate == unknown {
			unknownUnits += o.cost
		}
	}
	all := placed(ops)
	for _, x := range all {
		if x.asCounted() || len(x.decision.Limits) == 0 {
			continue
		}
		least, most := leased(all, ops, x)
		if used := x.used(); used < least || used > min(most+unknownUnits, leasesQuota) {
			errs = append(errs, fmt.Errorf("%d are leased, must be %d to %d, and %d of which nobody knows: %v",
				used, least, most, unknownUnits, x))
		}
	}
	if last := len(all) - 1; last >= 0 && all[last].used() != 0 {
		errs = append(errs, fmt.Errorf("%s: %d are leased long after every lease has expired",
			key.name, all[last].used()))
	}
	return errs
}

// leased is the least and the most that can be leased at the place of x, by the answers of reservations and
// settlements.
func leased(all, ops []*op, x *op) (least, most uint64) {
	at := &x.decision
	for _, r := range all {
		d := &r.decision
		if r.kind != shard.Reserve || !d.Allowed || d.HoldExpires <= at.DecidedAt || after(d, at) && r != x {
			continue
		}
		surely, maybe := before(d, at) || r == x, true
		for _, s := range ops {
			if s.kind == shard.Settle && s.of == r && (s.fate == unknown || s.fate == answered) {
				settled := s.fate == answered
				surely = surely && settled && after(&s.decision, at)
				maybe = maybe && !(settled && (before(&s.decision, at) || s == x))
			}
		}
		if surely {
			least += r.cost
		}
		if maybe {
			most += r.cost
		}
	}
	return least, most
}

// before reports whether a was decided in an earlier entry than b about the same key; after reports whether it was a
// later one.
func before(a, b *shard.Decision) bool { return a.DecidedAt < b.DecidedAt }

func after(a, b *shard.Decision) bool { return before(b, a) }
