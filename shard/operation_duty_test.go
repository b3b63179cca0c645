package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// A shard that is unreachable for long must not keep the others waiting: its duties stay due, and are older than
// theirs.
func TestMoreThanOneRoundOfDutiesTakesTurns(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 1000}))
	charge := func(now limit.Time, id string, home slot.ID) {
		w.batch(now, Request{Op: Charge, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k" + id, Cost: 1}},
			Operation: &Operation{ID: id, Op: Check, Home: home, Drawn: true, Fingerprint: 7, TTL: operationTTL}})
	}
	const most = 10
	for i := range 4 * most {
		charge(origin+1, fmt.Sprint(i), 1) // which is unreachable
	}
	charge(origin+2, "other", 2)
	for round := range 100 {
		now := origin + limit.Time(minute) + limit.Time(round)*limit.Time(second/2)
		for _, duty := range w.state.Duties(now, most) {
			if duty.To == 2 {
				return
			}
		}
	}
	t.Error("in 100 rounds of 10 duties, of 41 that are due, one was never among them")
}

// An id is remembered for the longest retention of all policies of the request, including those on other shards.
func TestHomeRemembersAnIDForAsLongAsTheLegsPoliciesSay(t *testing.T) {
	here, there := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10}),
		onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10})
	there.Name, there.Retention = "q", 2*hour
	c := &crossing{world: newWorld(t, here, there),
		about: Operation{ID: "x", Op: Check, Home: mine, Fingerprint: 7, TTL: operationTTL}}
	leg := Decision{Allowed: true, DecidedAt: origin, Position: Position{Shard: 5, Epoch: 1, Seq: 1}, Index: 1,
		Limits: []LimitStatus{{Policy: "q", Limit: "a", Key: "other"}}}
	if result := c.tell(origin+1, Conclude,
		func(r *Request) { r.Operation.Legs = []Leg{{Slot: 5, Allowed: true, Decision: leg}} }); result.Err != nil ||
		!result.Decision.Allowed {
		t.Fatalf("%+v", result)
	}
	c.tell(origin+2, Acknowledge, func(r *Request) {
		r.Operation.Verdict.State, r.Operation.Leg = OperationCommitted, 5
	})
	if result := c.tell(origin+limit.Time(hour), AskHome, nil); result.Err != nil || !result.Decision.Operation.Known {
		t.Errorf("after an hour of two, home says of the id: %+v", result)
	}
}

// Due keys are found by time, after any sequence of writes, postponements and ends.
func TestWhatIsDueIsFound(t *testing.T) {
	rnd := seeded(t)
	d, want := newDues(), map[string]limit.Time{}
	for range 20_000 {
		key := string([]byte{legRecord, rulingRecord, counterRecord}[rnd.IntN(3)]) + fmt.Sprint(rnd.IntN(300))
		due := limit.Time(rnd.Int64N(int64(1) << (8 + rnd.IntN(40))))
		var value []byte
		if rnd.IntN(3) > 0 {
			value = (&leg{due: due}).encode()
		}
		d.note(key, value)
		if delete(want, key); value != nil && due != 0 && key[0] != counterRecord {
			want[key] = due
		}
		now := limit.Time(rnd.Int64N(int64(1) << (8 + rnd.IntN(40))))
		if rnd.IntN(50) > 0 {
			continue
		}
		var all []string
		legs := 0
		for key, due := range want {
			if due <= now {
				all = append(all, key)
			}
			legs += int(bit(key[0] == legRecord))
		}
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(cmp.Compare(want[a], want[b]), strings.Compare(a, b))
		})
		got, count := keysOf(d.until(now, 1000, nil))
		if !slices.Equal(got, all) || count != len(all) || d.legs != legs {
			t.Fatalf("at %d %q are due, must be %q; %d legs, must be %d", now, got, all, d.legs, legs)
		}
		if rnd.IntN(15) > 0 {
			continue
		}
		// A few of them, from each index on: the same as from a sort of all, except for the order within some seconds.
		for _, most := range []int{1, rnd.IntN(len(all) + 1)} {
			if most >= len(all) {
				break
			}
			met := map[string]int{}
			for place := range all {
				some, count := keysOf(d.until(now, most, func(int) int { return place }))
				if len(some) != most || count != len(all) {
					t.Fatalf("%d of %d are listed, of %d", len(some), count, len(all))
				}
				for i, key := range some {
					met[key]++
					if i%8 > 0 {
						continue
					}
					if at := (place + i) % len(all); want[key]>>lineBits != want[all[at]]>>lineBits {
						t.Fatalf("at place %d stands %q of %d, in a sorted list %q of %d",
							at, key, want[key], all[at], want[all[at]])
					}
				}
			}
			for _, key := range all {
				if met[key] != most {
					t.Fatalf("%q is met %d times in rounds of %d, from each place on", key, met[key], most)
				}
			}
		}
	}
	for key := range want {
		d.note(key, nil)
	}
	if len(d.pages) > 0 || len(d.at) > 0 || d.legs != 0 {
		t.Errorf("when all is done %+v is left", d)
	}
}

func keysOf(keys []dueKey, count int) (names []string, of int) {
	for _, k := range keys {
		names = append(names, k.key)
	}
	return names, count
}

// However much is due, little more is examined than is requested, since entries wait in the meantime. 300,000
// operations that became due at once, for instance after a shard was away for an hour, took seconds.
func TestManyDutiesAreNotAllLookedAt(t *testing.T) {
	s := manyDue(t, 300_000)
	if allocated := testing.AllocsPerRun(3,
		func() { s.due.until(origin+limit.Time(hour), 1000, func(int) int { return 250_000 }) }); allocated > 200 {
		t.Errorf("%v allocations for 1,000 of 300,000", allocated)
	}
	few, count := s.due.until(origin+limit.Time(hour), 1000, func(int) int { return 299_500 })
	if len(few) != 1000 || count != 300_000 || cap(few) > 4000 {
		t.Errorf("%d of %d are listed, with room for %d", len(few), count, cap(few))
	}
}

// manyDue returns a shard with operations that are due within a minute of origin.
func manyDue(t testing.TB, count int) *State {
	s := NewState(3)
	l := &leg{state: legOpen, home: 1, keep: minute, answer: Decision{Position: Position{3, 1, 1}, Index: 1}}
	for i := range count {
		l.due = origin + limit.Time(i)*limit.Time(minute)/limit.Time(count)
		key := fmt.Sprintf("%c\x07default%d", legRecord, i)
		s.table.Put(key, Record{Value: l.encode(), ForgetAt: limit.Forever})
		s.due.note(key, l.encode())
	}
	return s
}

// BenchmarkOverdue lists a thousand of 300,000 due operations.
func BenchmarkOverdue(b *testing.B) {
	s, now := manyDue(b, 300_000), origin+limit.Time(hour)
	b.ReportAllocs()
	for b.Loop() {
		if now++; len(s.Duties(now, 1000)) != 1000 {
			b.Fatal("not a thousand")
		}
	}
}

// BenchmarkDuties lists the due ones of a million open holds: none is due.
func BenchmarkDuties(b *testing.B) {
	s := NewState(3)
	for i := range 1_000_000 {
		s.due.note(fmt.Sprintf("%c%d", rulingRecord, i),
			(&ruling{due: origin + limit.Time(i)*limit.Time(second)}).encode())
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(s.Duties(origin-1, 1000)) > 0 {
			b.Fatal("something is due")
		}
	}
}
