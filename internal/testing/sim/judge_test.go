package sim

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/node"
	"github.com/stint-io/stint/shard"
)

// sums checks that replicas of one shard at one place are equal.
type sums struct {
	mu   sync.Mutex
	seen map[place]seenSum
	n    int // comparisons of two replicas
}

type place struct {
	shard      shard.ID
	epoch, seq uint64
}

type seenSum struct {
	sum  uint64
	node string
}

func (s *sums) see(at node.Standing, who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[place]seenSum)
	}
	p := place{at.Shard, at.Epoch, at.Seq}
	known, ok := s.seen[p]
	if !ok {
		s.seen[p] = seenSum{at.Sum, who}
		return nil
	}
	if known.node != who {
		s.n++
	}
	if known.sum != at.Sum {
		return fmt.Errorf("shard %s has forked: at %d/%d the fingerprint on %s is %016x, on %s %016x",
			at.Shard, at.Epoch, at.Seq, known.node, known.sum, who, at.Sum)
	}
	return nil
}

// judge compares the clients' answers with the expected ones.
func judge(ops []*op) (errs []error) {
	errs = append(errs, judgePlaces(ops)...)
	errs = append(errs, judgeReplays(ops)...)
	for _, key := range everyKey() {
		var mine []*op
		for _, o := range ops {
			if o.key == key {
				mine = append(mine, o)
			}
		}
		wrong := judgeTimes(mine)
		switch key.policy {
		case "stock":
			wrong = append(wrong, judgeStock(key, mine)...)
		case "hits":
			wrong = append(wrong, judgeHits(mine)...)
		case "grown":
			wrong = append(wrong, judgeGrown(mine)...)
		case "seats":
			wrong = append(wrong, judgeSeats(key, mine)...)
		case "leases":
			wrong = append(wrong, judgeLeases(key, mine)...)
		}
		if len(wrong) > 0 {
			errs = append(errs, append(wrong, historyOf(key, mine))...)
		}
	}
	return errs
}

// porcupinePatience is how long the search for an order of a key's history may take.
const porcupinePatience = 20 * time.Second

// failover is less than the time of an election after a lost leader: a hand-over does not make a client wait that long.
const failover = time.Second

// founded is the time by which a new cluster has spread its shards.
const founded = 3 * time.Second

// judgeCalm checks that, while only planned things happen, no request fails (G11) or waits longer than for a hand-over.
func judgeCalm(ops []*op) (errs []error) {
	for _, o := range ops {
		if o.failed {
			errs = append(errs, fmt.Errorf("failed in a calm world: %v: %w", o, o.err))
		}
		if o.waited > failover && o.called > founded {
			errs = append(errs, fmt.Errorf("took %v in a calm world, as if a leader had been lost: %v", o.waited, o))
		}
	}
	return errs
}

// historyOf is the history of a key, as an error to print after the errors about the key.
func historyOf(key named, ops []*op) error {
	var b strings.Builder
	fmt.Fprintf(&b, "the history of %s:", key.name)
	byTime(ops)
	for _, o := range ops {
		if o.fate != refused {
			fmt.Fprintf(&b, "\n    %v", o)
		}
	}
	return fmt.Errorf("%s", b.String())
}

// byTime sorts the operations on a key into their order. That of several shards, of which the key was one after the
// other, is the order of their times: each begins with a later one than the last has decided with.
func byTime(ops []*op) {
	slices.SortStableFunc(ops, func(a, b *op) int {
		return cmp.Or(cmp.Compare(a.decision.DecidedAt, b.decision.DecidedAt), cmp.Compare(a.used(), b.used()),
			// a denial at a number came after the admission that reached it
			cmp.Compare(b.decision.Index, a.decision.Index))
	})
}

// byPlace sorts operations into the order of the log of each shard.
func byPlace(ops []*op) {
	slices.SortStableFunc(ops, func(a, b *op) int {
		p, q := a.decision.Position, b.decision.Position
		return cmp.Or(cmp.Compare(p.Shard, q.Shard), cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Seq, q.Seq),
			cmp.Compare(b.decision.Index, a.decision.Index))
	})
}

func (o *op) used() uint64 {
	if len(o.decision.Limits) == 0 {
		return 0
	}
	return o.decision.Limits[0].Used
}

// asCounted reports whether this is the answer to a copy of a request that was counted before: it shows the current
// limits, and not the place of the original.
func (o *op) asCounted() bool { return o.decision.Replayed && o.decision.Index == 0 }

// placed lists the answered operations on a key in their order.
func placed(ops []*op) []*op {
	all := answeredOf(ops)
	byTime(all)
	return all
}

func answeredOf(ops []*op) (all []*op) {
	for _, o := range ops {
		if o.fate == answered {
			all = append(all, o)
		}
	}
	return all
}

// judgePlaces checks that no two effects have one place, and that time rises with the places of each shard.
func judgePlaces(ops []*op) (errs []error) {
	type effect struct {
		shard.Position
		index uint32
	}
	effects := make(map[effect]*op)
	all := answeredOf(ops)
	byPlace(all)
	for i, o := range all {
		at := effect{o.decision.Position, o.decision.Index}
		if other := effects[at]; other != nil && at.index != 0 {
			errs = append(errs, fmt.Errorf("two effects at one place:\n    %v\n    %v", other, o))
		}
		effects[at] = o
		if o.asCounted() {
			errs = append(errs, fmt.Errorf("a copy is told what is there by now, and not what the first one was: %v",
				o))
		}
		if i == 0 || all[i-1].decision.Position.Shard != o.decision.Position.Shard {
			continue
		}
		before, after := &all[i-1].decision, &o.decision
		if same := before.Position == after.Position; same && before.DecidedAt != after.DecidedAt ||
			!same && before.DecidedAt >= after.DecidedAt {
			errs = append(errs, fmt.Errorf("shard time does not rise:\n    %v\n    %v", all[i-1], o))
		}
	}
	return errs
}

// judgeTimes checks that the time of a key rises from one operation to the next, whichever shard decides it. A copy of
// an operation with an id is answered as the first one was.
func judgeTimes(ops []*op) (errs []error) {
	all := answeredOf(ops)
	slices.SortFunc(all, func(a, b *op) int { return cmp.Compare(a.returned, b.returned) })
	var latest *op // of those that had returned before the next ones were called
	returned := 0
	byCall := slices.SortedFunc(slices.Values(all), func(a, b *op) int { return cmp.Compare(a.called, b.called) })
	for _, o := range byCall {
		for ; returned < len(all) && all[returned].returned < o.called; returned++ {
			if latest == nil || all[returned].decision.DecidedAt > latest.decision.DecidedAt {
				latest = all[returned]
			}
		}
		if latest != nil && o.decision.DecidedAt < latest.decision.DecidedAt {
			errs = append(errs, fmt.Errorf("the time of a key does not rise:\n    %v\n    %v", latest, o))
		}
	}
	return errs
}

// judgeReplays checks that an id gets the same answer again.
func judgeReplays(ops []*op) (errs []error) {
	for _, o := range ops {
		if o.again == nil {
			continue
		}
		first, again := o.decision, *o.again
		first.Replayed, again.Replayed = false, false
		if !o.again.Replayed || !reflect.DeepEqual(first, again) {
			errs = append(errs, fmt.Errorf("an id is answered in another way: %v, then %+v", o, *o.again))
		}
	}
	return errs
}

// judgeStock judges a lifetime limit: every unit is given out once, no others are, and every denied request did not
// fit.
func judgeStock(key named, ops []*op) (errs []error) {
	var ledger model.Ledger
	for _, o := range ops {
		switch {
		case o.kind != shard.Check:
		case o.fate == unknown:
			ledger.Unknown += o.cost
		case o.fate == answered && o.decision.Allowed:
			ledger.Acked += o.cost
		}
	}
	all := placed(ops)
	errs = append(errs, judgeRun(all, stockQuota)...)
	if len(all) == 0 {
		return append(errs, fmt.Errorf("%s was never answered", key.name))
	}
	if err := ledger.Settle(all[len(all)-1].used()); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", key.name, err))
	}
	if err := model.Linearizable(stockQuota, observed(ops), porcupinePatience); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", key.name, err))
	}
	return errs
}

// judgeRun checks that a counter's numbers, in the order of the log, only grow, and that each admission took its own
// units.
func judgeRun(all []*op, quota uint64) (errs []error) {
	used := uint64(0)
	for _, o := range all {
		now := o.used()
		took := uint64(0)
		if o.kind == shard.Check && o.decision.Allowed && !o.asCounted() {
			took = o.cost
		}
		if now < used+took {
			errs = append(errs, fmt.Errorf("used is %d, before it was %d: %v", now, used, o))
		}
		if now > quota {
			errs = append(errs, fmt.Errorf("used is %d of %d: %v", now, quota, o))
		}
		if o.kind == shard.Check && !o.decision.Allowed && now+o.cost <= quota {
			errs = append(errs, fmt.Errorf("denied, and %d of %d were used: %v", now, quota, o))
		}
		used = max(used, now)
	}
	return errs
}

// judgeHits judges a window that begins with the first hit: each window as above, and none begins before the last one
// has ended.
func judgeHits(ops []*op) (errs []error) {
	windows := make(map[limit.Time][]*op)
	for _, o := range placed(ops) {
		if len(o.decision.Limits) > 0 {
			if start := o.decision.Limits[0].WindowStart; start != 0 {
				windows[start] = append(windows[start], o)
			}
		}
	}
	var starts []limit.Time
	for start, all := range windows {
		starts = append(starts, start)
		errs = append(errs, judgeRun(all, hitsQuota)...)
		for _, o := range all {
			if at := o.decision.DecidedAt; at < start || at >= start+limit.Time(hitsPeriod/time.Microsecond) {
				errs = append(errs, fmt.Errorf("decided outside of its window: %v", o))
			}
		}
	}
	slices.Sort(starts)
	for i := 1; i < len(starts); i++ {
		if starts[i]-starts[i-1] < limit.Time(hitsPeriod/time.Microsecond) {
			errs = append(errs, fmt.Errorf("a window begins at %d and the next at %d", starts[i-1], starts[i]))
		}
	}
	return errs
}

// judgeGrown checks that the policies by which a shard decides never go back to an older version.
func judgeGrown(ops []*op) (errs []error) {
	quota := uint64(0)
	for _, o := range placed(ops) {
		if len(o.decision.Limits) == 0 || o.decision.Replayed {
			continue
		}
		now := o.decision.Limits[0].Quota
		if now < quota {
			errs = append(errs, fmt.Errorf("decided by policies of quota %d, after such of %d: %v", now, quota, o))
		}
		quota = now
	}
	return errs
}

// observed is the clients' view of a key. An operation answered as counted before was counted at some time after its
// first request, and its answer shows the key at the time of the answer. So it is two observations, and the first may
// not have happened.
func observed(ops []*op) (all []model.Observed) {
	for _, o := range ops {
		seen := model.Observed{Client: o.client, Called: int64(o.called), Returned: int64(o.returned), Cost: o.cost,
			Unknown: o.fate == unknown, Allowed: o.decision.Allowed, Used: o.used(), At: o.decision.DecidedAt}
		if o.kind == shard.Get {
			seen.Cost, seen.Allowed = 0, true
		}
		switch {
		case o.fate == refused || o.kind == shard.Get && o.fate == unknown:
		case o.fate == answered && o.asCounted():
			counted := seen
			counted.Unknown = true
			seen.Cost = 0
			all = append(all, counted, seen)
		default:
			all = append(all, seen)
		}
	}
	return all
}
