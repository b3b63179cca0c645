package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

// A shard that is away for long must not keep the others waiting: what is owed to it stays due, and is older than what is
// owed to them.
func TestMoreThanOneRoundOfDutiesTakesTurns(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 1000}))
	charge := func(now limit.Time, id string, home ID) {
		w.batch(now, Request{Op: Charge, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k" + id, Cost: 1}},
			Operation: &Operation{ID: id, Op: Check, Home: home, Drawn: true, Fingerprint: 7, TTL: operationTTL}})
	}
	const most = 10
	for i := range 4 * most {
		charge(origin+1, fmt.Sprint(i), 1) // which is away
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

// An id is remembered for the longest retention of the policies of the whole request, some of which are those of other
// shards.
func TestHomeRemembersAnIDForAsLongAsTheLegsPoliciesSay(t *testing.T) {
	here, there := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10}), onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10})
	there.Name, there.Retention = "q", 2*hour
	c := &crossing{world: newWorld(t, here, there), about: Operation{ID: "x", Op: Check, Home: 3, Fingerprint: 7, TTL: operationTTL}}
	leg := Decision{Allowed: true, DecidedAt: origin, Position: Position{Shard: 5, Epoch: 1, Seq: 1}, Index: 1,
		Limits: []LimitStatus{{Policy: "q", Limit: "a", Key: "other"}}}
	if result := c.tell(origin+1, Conclude, func(r *Request) { r.Operation.Legs = []Leg{{Shard: 5, Allowed: true, Decision: leg}} }); result.Err != nil || !result.Decision.Allowed {
		t.Fatalf("%+v", result)
	}
	c.tell(origin+2, Acknowledge, func(r *Request) {
		r.Operation.Verdict.State, r.Operation.Leg = OperationCommitted, 5
	})
	if result := c.tell(origin+limit.Time(hour), AskHome, nil); result.Err != nil || !result.Decision.Operation.Known {
		t.Errorf("after an hour of two, home says of the id: %+v", result)
	}
}

// What is due is found by time, whatever was written, put off and ended before.
func TestWhatIsDueIsFound(t *testing.T) {
	rnd := seeded(t)
	d, want := newDues(), map[string]limit.Time{}
	for range 20_000 {
		key := string([]byte{legRecord, rulingRecord, counterRecord}[rnd.IntN(3)]) + fmt.Sprint(rnd.IntN(300))
		due := limit.Time(rnd.Int64N(int64(1) << (8 + rnd.IntN(40))))
		var value []byte
		if rnd.IntN(3) > 0 {
			value = appendDue(nil, legFormat, due)
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
		got := d.until(now)
		slices.Sort(all)
		slices.Sort(got)
		if !slices.Equal(got, all) || d.legs != legs {
			t.Fatalf("at %d %q are due, must be %q; %d legs, must be %d", now, got, all, d.legs, legs)
		}
	}
	for key := range want {
		d.note(key, nil)
	}
	if len(d.pages) > 0 || len(d.at) > 0 || d.legs != 0 {
		t.Errorf("when all is done %+v is left", d)
	}
}

// BenchmarkDuties asks what is due of a million open holds, of which nothing is.
func BenchmarkDuties(b *testing.B) {
	s := NewState(3)
	for i := range 1_000_000 {
		s.due.note(fmt.Sprintf("%c%d", rulingRecord, i), appendDue(nil, rulingFormat, origin+limit.Time(i)*limit.Time(second)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(s.Duties(origin-1, 1000)) > 0 {
			b.Fatal("something is due")
		}
	}
}
