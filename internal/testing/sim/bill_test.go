package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// simMeter is the meter of the policies with errands of known fate. Its periods are as short as they can be: a world
// has two ends of one, and a third or a fourth if it takes long to settle.
const simMeter = "{name: units, calendar: {unit: minute}, retain: 36, grace: 5s}"

// crashAtMinute is a fault that is not drawn: half of the worlds have one.
const crashAtMinute = "crash at the end of a minute"

// planCrashAtMinute adds it, at the one end of a minute that comes while there are faults. It draws nothing, so that
// the other faults of a seed stay what they were.
func (p *plan) planCrashAtMinute() {
	f := fault{at: 40 * time.Second, kind: crashAtMinute, whom: int(p.seed / 2 % 8),
		long: time.Duration(p.seed/2%5) * time.Second, size: float64(p.seed%97) / 97}
	p.insert(f)
}

// doCrashAtMinute kills a process when a minute ends, or up to 100 ms before or after.
func (w *world) doCrashAtMinute(f fault) {
	end := time.Now().Truncate(time.Minute).Add(time.Minute)
	w.pause(time.Until(end) + time.Duration((f.size-0.5)*float64(200*time.Millisecond)))
	w.crash(w.victim(f.whom), f.long)
}

// ledger is the bills of a world, as they were read while it went on.
type ledger struct{ final map[billed]shard.Usage }

// billed is a period of a key.
type billed struct {
	policy, key string
	start       limit.Time
}

// watch reads all bills now and then: final ones do not change, under any owner of the shard.
func (b *ledger) watch(w *world, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(3 * time.Second):
		}
		b.read(w)
	}
}

// read reads all bills through any nodes; ok is false if a shard did not answer, or a slot was on none when it was
// read.
func (b *ledger) read(w *world) (all map[billed]shard.Usage, ok bool) {
	s, err := w.status()
	if err != nil {
		return nil, false
	}
	all = make(map[billed]shard.Usage)
	var met slot.Set
	for _, one := range s.Shards {
		if shard.ID(one.Id) == shard.System {
			continue
		}
		here := slot.All()
		for q := (shard.UsageQuery{}); ; {
			page, slots, ok := b.page(w, shard.UsageRequest(shard.DefaultNamespace, shard.ID(one.Id), q))
			if !ok {
				return nil, false
			}
			here.And(&slots)
			for _, u := range page.Periods {
				all[billed{u.Policy, u.Key, u.Start}] = u
				b.compare(w, u, page.Through)
			}
			if q.From = page.Next; q.From == (shard.UsagePlace{}) {
				break
			}
		}
		met.Or(&here)
	}
	return all, met == slot.All()
}

func (b *ledger) page(w *world, r shard.Request) (page shard.UsagePage, slots slot.Set, ok bool) {
	lives := w.lives()
	if len(lives) == 0 {
		return page, slots, false
	}
	l := lives[w.chance.IntN(len(lives))]
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	result := l.Decide(ctx, []shard.Request{r})[0]
	if result.Err != nil || l.dead.Load() {
		return page, slots, false
	}
	page, err := shard.UsageOf(shard.DefaultNamespace, &result.Decision)
	if err != nil {
		w.fail(err)
	}
	return page, result.Decision.Slots(), err == nil
}

// compare compares a period with what it was when it was final. Keys that are forgotten begin again.
func (b *ledger) compare(w *world, u shard.Usage, through limit.Time) {
	at := billed{u.Policy, u.Key, u.Start}
	before, was := b.final[at]
	if was && before != u {
		w.fail(fmt.Errorf("a final period changes: %+v was %+v", u, before))
	}
	if u.Final <= through && sumsUp(u.Policy, u.Key) {
		if b.final == nil {
			b.final = make(map[billed]shard.Usage)
		}
		b.final[at] = u
	}
}

// sumsUp reports whether a key is never forgotten.
func sumsUp(policy, key string) bool {
	return policy != "pair" || slices.ContainsFunc(errandKeys(), func(e shard.Entry) bool { return e.Key == key })
}

// judge compares the bills at the end with the answers: each key's sum, over all periods, with what was admitted less
// what was given back; and where all is of one shard and nothing is given back, each period.
func (b *ledger) judge(w *world) {
	var errands []*errand
	for _, r := range w.runners {
		errands = append(errands, r.done...)
	}
	var all map[billed]shard.Usage
	ok := false
	for range 10 {
		if all, ok = b.read(w); ok {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if !ok {
		w.fail(fmt.Errorf("the bills of a whole world cannot be read"))
		return
	}
	want := final(errands)
	sums := make(map[string]int64)
	for at, u := range all {
		sums[at.key] += int64(u.Units) - int64(u.Credits)
		if u.Credits > 0 {
			w.tally.note("bills: periods with credits")
		}
	}
	for _, entry := range errandKeys() {
		if (entry.Policy == "pair" || entry.Policy == "ruled") && sums[entry.Key] != want[entry.Key] {
			w.fail(fmt.Errorf("%s is billed for %d, by all answers it must be %d: %+v\n%s",
				entry.Key, sums[entry.Key], want[entry.Key], periodsOf(all, entry.Key), errandsOf(errands, entry.Key)))
		}
	}
	for _, key := range []string{"ruled", "turned"} {
		b.judgePeriods(w, key, periodsOf(all, key), errands)
	}
	w.tally.add("bills: final periods", len(b.final))
}

func periodsOf(all map[billed]shard.Usage, key string) (periods []shard.Usage) {
	for at, u := range all {
		if at.key == key {
			periods = append(periods, u)
		}
	}
	return periods
}

// judgePeriods compares each period of a key with the requests that were admitted in it.
func (b *ledger) judgePeriods(w *world, key string, periods []shard.Usage, errands []*errand) {
	for _, u := range periods {
		units := uint64(0)
		for _, e := range errands {
			if at := e.decision.DecidedAt; e.kind == key && e.admitted() && u.Start <= at && at < u.End {
				units += e.request.Entries[0].Cost
			}
		}
		if u.Units != units {
			w.fail(fmt.Errorf("%+v, and the answers say %d units\n%s", u, units, errandsOf(errands, key)))
		}
	}
	for _, e := range errands {
		if at := e.decision.DecidedAt; e.kind == key && e.admitted() &&
			!slices.ContainsFunc(periods, func(u shard.Usage) bool { return u.Start <= at && at < u.End }) {
			w.fail(fmt.Errorf("no period of %+v has it: %v", periods, e))
		}
	}
}
