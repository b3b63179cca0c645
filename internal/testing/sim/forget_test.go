package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Each runner has two keys of its own, which it charges together and forgets.

func (r *runner) privateKeys() []string {
	return []string{fmt.Sprint("private ", r.number, "a"), fmt.Sprint("private ", r.number, "b")}
}

// private charges the runner's own keys.
func (r *runner) private() *errand {
	var entries []shard.Entry
	for _, key := range r.privateKeys() {
		entries = append(entries, shard.Entry{Policy: "pair", Key: key, Cost: uint64(1 + r.chance.IntN(3))})
	}
	return r.new("private", shard.Check, entries...)
}

// forget has one of the runner's own keys forgotten, as stint keys forget does. It is done if all shards had nothing
// left of it and each slot was on one of them: an errand without an answer says that it may have been done in part.
func (r *runner) forget() *errand {
	e := r.new("forget", shard.Forget, shard.Entry{Policy: "pair", Key: r.privateKeys()[r.chance.IntN(2)], Cost: 1})
	e.request.ID = ""
	for range 20 {
		if left, ok := r.forgetRound(e); ok && !left {
			e.fate, e.decision.Allowed = answered, true
			break
		}
	}
	return e
}

// forgetRound asks every shard once, and returns whether one had more, or may have had.
func (r *runner) forgetRound(e *errand) (left, ok bool) {
	lives := r.w.lives()
	if len(lives) == 0 {
		return false, false
	}
	l := lives[r.chance.IntN(len(lives))]
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	_, shards, err := l.slots(ctx)
	if err != nil {
		return false, false
	}
	var requests []shard.Request
	for id := range shards {
		request := e.request
		request.Shard, request.Entries = shard.ID(id), nil
		request.Adjustment = &shard.Adjustment{Forget: e.request.Entries[0].Key, Actor: "simulated"}
		requests = append(requests, request)
	}
	var met slot.Set
	for _, result := range l.Decide(ctx, requests) {
		if result.Err != nil || l.dead.Load() {
			return false, false
		}
		done, slots := result.Decision.Answer().Forgot, result.Decision.Slots()
		left = left || done.Open > 0 || done.More
		met.Or(&slots)
	}
	return left || met != slot.All(), true
}

// judgeForgotten checks that a key has used no more at the end than was admitted since it was last forgotten, once the
// legs of operations that came to nothing have given back what they held.
func (w *world) judgeForgotten() {
	for _, r := range w.runners {
		for _, key := range r.privateKeys() {
			var forgotten time.Duration // when it was asked for last, of what was done
			for _, e := range r.done {
				if e.kind == "forget" && e.fate == answered && e.request.Entries[0].Key == key {
					forgotten = e.called
				}
			}
			most := int64(0)
			// one without an answer was asked again at the end, and may be counted after what followed it here
			for _, e := range r.done {
				at := slices.IndexFunc(e.request.Entries, func(entry shard.Entry) bool { return entry.Key == key })
				if at >= 0 && e.kind == "private" && e.admitted() && e.returned > forgotten {
					most += int64(e.request.Entries[at].Cost)
				}
			}
			if used, ok := r.read(shard.Entry{Policy: "pair", Key: key}); !ok || used > most {
				w.fail(fmt.Errorf("%s has used %d (read: %v), and since it was forgotten %d were admitted\n%s",
					key, used, ok, most, errandsOf(r.done, key)))
			}
		}
	}
}
