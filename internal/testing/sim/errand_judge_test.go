package sim

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// final is the final used count of each key, by the answers: every fate is known by then. It does not depend on how
// anything is counted.
func final(errands []*errand) map[string]int64 {
	sum := make(map[string]int64)
	for _, e := range errands {
		if !e.admitted() {
			continue
		}
		for i, entry := range e.request.Entries {
			switch e.kind {
			case "check", "ruled":
				sum[entry.Key] += int64(e.leaves(i))
			case "reserve":
				sum[entry.Key] += int64(e.leaves(i))
			case "kin":
				sum[entry.Key] += int64(entry.Cost)
				if slices.ContainsFunc(e.decision.Limits,
					func(l shard.LimitStatus) bool { return l.Key == kinParent }) {
					sum[kinParent] += int64(entry.Cost)
				}
			case "tally":
				sum[entry.Key] += e.request.Tally.Amount
			case "add", "correct":
				sum[entry.Key] += e.request.Adjustment.Amount
			}
		}
	}
	return sum
}

// leaves is the amount of its i-th entry that a check or a reservation leaves used.
func (e *errand) leaves(i int) uint64 {
	switch s := e.endedBy; {
	case s != nil && s.fate == answered:
		return s.spent[i]
	case e.request.Hold == nil || e.lives() == longHold: // it is still open
		return e.request.Entries[i].Cost
	}
	return 0 // it has expired
}

// lives is how long a hold lives since it was last extended.
func (e *errand) lives() limit.Span {
	for _, x := range slices.Backward(e.extensions) {
		if x.fate == answered {
			return x.request.Settlement.TTL
		}
	}
	return e.request.Hold.TTL
}

// awaitFinal checks that every key's final used count equals the sum of the answers. Units that legs hold for failed
// operations are released after the legs have asked home, which takes a while; the count must never be too low.
func (w *world) awaitFinal() {
	var all []*errand
	for _, r := range w.runners {
		all = append(all, r.done...)
	}
	want := final(all)
	const within = 100 * time.Second
	began := time.Now()
	for _, entry := range errandKeys() {
		for {
			used, ok := w.runners[0].read(entry)
			if ok && used == want[entry.Key] {
				break
			}
			if !ok || used < want[entry.Key] || time.Since(began) > within {
				w.fail(fmt.Errorf("%s has used %d (read: %v), by all answers it must be %d, %v after the end\n%s",
					entry.Key, used, ok, want[entry.Key], time.Since(began), errandsOf(all, entry.Key)))
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
	w.gone = time.Since(began)
}

func errandKeys() (all []shard.Entry) {
	for i := range 5 {
		all = append(all, shard.Entry{Policy: "pair", Key: fmt.Sprint("pair ", i)})
	}
	for i := range 2 {
		all = append(all, shard.Entry{Key: fmt.Sprint("tally ", i), Limits: shard.TallyLimits})
	}
	return append(all, shard.Entry{Policy: "grown", Key: "added"}, shard.Entry{Policy: "ruled", Key: "ruled"},
		shard.Entry{Policy: "grown", Key: kinParent}, shard.Entry{Policy: "grown", Key: kinParent + "/child"},
		shard.Entry{Policy: "billed", Key: "billed"})
}

func errandsOf(all []*errand, key string) string {
	var b strings.Builder
	slices.SortFunc(all, func(a, b *errand) int { return cmp.Compare(a.called, b.called) })
	for _, e := range all {
		if slices.ContainsFunc(e.request.Entries, func(entry shard.Entry) bool { return entry.Key == key }) {
			fmt.Fprintf(&b, "    %v\n", e)
		}
	}
	return b.String()
}

// judgeErrands compares the runners' answers with the expected ones.
func judgeErrands(all []*errand, rests []rest) (errs []error) {
	wrong := func(e *errand, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %v", fmt.Sprintf(format, args...), e))
	}
	for _, e := range all {
		for _, l := range e.decision.Limits {
			if most := quotaOf(l.Policy); l.Used > most {
				wrong(e, "%s has used %d of %d", l.Key, l.Used, most)
			}
		}
		switch {
		case e.fate == ended && e.of.request.Hold != nil && e.of.lives() != longHold: // it may have expired
		case e.fate == ended:
			wrong(e, "nobody else has ended it")
		case e.kind == "rule": // repeated, it answers the same, and may take effect again
		case e.again != nil && (e.again.Allowed != e.decision.Allowed || e.again.DecidedAt != e.decision.DecidedAt ||
			!e.again.Replayed):
			wrong(e, "an id is answered in another way: %+v", *e.again)
		case e.kind == "extend" && e.fate == answered &&
			e.decision.HoldExpires != e.decision.DecidedAt+limit.Time(e.request.Settlement.TTL):
			wrong(e, "the hold ends at %d", e.decision.HoldExpires)
		case e.kind == "extend" && e.again != nil && e.again.HoldExpires != e.decision.HoldExpires:
			wrong(e, "an id has extended the hold again: %+v", *e.again)
		case e.again != nil && e.again.Tallied != nil && !reflect.DeepEqual(e.again.Tallied, e.decision.Tallied):
			wrong(e, "an id has another tally: %+v", *e.again.Tallied)
		case e.kind == "correct" && e.again != nil && !reflect.DeepEqual(e.again.System, e.decision.System):
			wrong(e, "an id has another bill: %+v", *e.again.System)
		}
		if e.kind == "damped" && e.fate == answered &&
			(e.decision.Age > 0 && e.decision.Allowed || e.decision.Age > dampedSpan) {
			wrong(e, "what is repeated is a denial, and no older than %v", dampedAge)
		}
	}
	errs = append(errs, judgeTallies(all)...)
	errs = append(errs, judgeDamped(all)...)
	errs = append(errs, judgeCapped(all, rests)...)
	return append(errs, judgeTurned(all)...)
}

const dampedSpan = limit.Span(dampedAge / time.Microsecond)

func quotaOf(policy string) uint64 {
	switch policy {
	case "pair":
		return pairQuota
	case "ruled":
		return ruledMore
	case "damped":
		return dampedQuota
	}
	return 1 << 60
}

// judgeTallies checks that each tally grew only by what was added to it, in the order of the logs.
func judgeTallies(all []*errand) (errs []error) {
	keys := make(map[string][]*errand)
	for _, e := range all {
		if e.kind == "tally" && e.fate == answered {
			keys[e.request.Entries[0].Key] = append(keys[e.request.Entries[0].Key], e)
		}
	}
	for _, mine := range keys {
		slices.SortFunc(mine, func(a, b *errand) int {
			return cmp.Or(cmp.Compare(a.decision.DecidedAt, b.decision.DecidedAt),
				cmp.Compare(a.decision.Tallied.Value, b.decision.Tallied.Value))
		})
		sum := int64(0)
		for _, e := range mine {
			if sum += e.request.Tally.Amount; e.decision.Tallied.Value != sum {
				errs = append(errs, fmt.Errorf("the tally must be %d: %v", sum, e))
				break
			}
		}
	}
	return errs
}

// judgeDamped checks that a policy with repeated denials admits no more than any other.
func judgeDamped(all []*errand) (errs []error) {
	windows := make(map[limit.Time]uint64)
	for _, e := range all {
		if e.kind != "damped" || !e.admitted() || len(e.decision.Limits) == 0 {
			continue
		}
		start := e.decision.Limits[0].WindowStart
		if windows[start]++; windows[start] > dampedQuota {
			errs = append(errs, fmt.Errorf("%d were admitted in one window: %v", windows[start], e))
		}
	}
	return errs
}

// judgeCapped checks that a shard that has its part of the policy's keys, or more since slots have come with theirs,
// counts no new one, whichever node owns it. A shard's part depends on its slots, so it judges while no slot moves.
func judgeCapped(all []*errand, rests []rest) (errs []error) {
	var capped []*errand
	for _, e := range all {
		if e.kind == "capped" {
			capped = append(capped, e)
		}
	}
	slices.SortFunc(capped, func(a, b *errand) int { return cmp.Compare(a.decision.DecidedAt, b.decision.DecidedAt) })
	for _, now := range rests {
		for _, e := range capped {
			if !e.admitted() || e.called < now.from || e.returned > now.to || !firstOfKey(e, capped) {
				continue
			}
			at := shard.Of(now.slots, shard.DefaultNamespace, e.request.Entries[0].Key)
			if e.decision.Position.Shard != at {
				errs = append(errs, fmt.Errorf("shard %s has the key's slot: %v", at, e))
			}
			keys := make(map[string]bool)
			for _, other := range capped {
				key := other.request.Entries[0].Key
				if other.admitted() && other.decision.DecidedAt <= e.decision.DecidedAt &&
					shard.Of(now.slots, shard.DefaultNamespace, key) == at {
					keys[key] = true
				}
			}
			part := (cappedKeys*now.slots.Owned(uint32(at)) + slot.Count - 1) / slot.Count
			if len(keys) > part {
				errs = append(errs, fmt.Errorf("shard %s counts %d keys of a policy, and its part is %d: %v",
					at, len(keys), part, e))
			}
		}
	}
	return errs
}

// firstOfKey reports whether a request was surely the first one of its key that was counted.
func firstOfKey(e *errand, all []*errand) bool {
	return !slices.ContainsFunc(all, func(other *errand) bool {
		return other != e && other.request.Entries[0].Key == e.request.Entries[0].Key && other.called < e.returned &&
			(other.fate == unknown || other.admitted() && other.decision.DecidedAt <= e.decision.DecidedAt)
	})
}

// judgeTurned checks that each revision starts fresh, and admits its quota once.
func judgeTurned(all []*errand) (errs []error) {
	acked, told := make(map[uint64]uint64), make(map[uint64]*errand)
	for _, e := range all {
		if e.kind != "turned" || e.fate != answered || len(e.decision.Limits) == 0 {
			continue
		}
		l := &e.decision.Limits[0]
		if e.decision.Allowed {
			acked[l.Quota] += e.request.Entries[0].Cost
		}
		if other := told[l.Quota]; other == nil || other.decision.Limits[0].Used < l.Used {
			told[l.Quota] = e
		}
	}
	for quota, e := range told {
		if acked[quota] > quota || e.decision.Limits[0].Used != acked[quota] {
			errs = append(errs, fmt.Errorf("the revision with a quota of %d has admitted %d, and tells of %d: %v",
				quota, acked[quota], e.decision.Limits[0].Used, e))
		}
	}
	return errs
}
