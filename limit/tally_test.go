package limit_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
)

var unlimited = limit.Limit{Algorithm: limit.Unlimited}

var edges = []int64{0, 1, -1, 5, -3, 1<<40 - 1, 1<<62 - 1, 1 << 62, 1<<62 + 1, -1 << 62, -1<<62 - 1, math.MaxInt64,
	math.MinInt64, math.MinInt64 + 1}

// A tally can be read back from its State, and from the encoding of the State, until its end.
func TestATallyComesBack(t *testing.T) {
	for _, value := range edges {
		for _, end := range []limit.Time{0, 50, limit.MaxTime} {
			want := limit.Tally{Value: value, EndsAt: end}
			s, rest, err := limit.DecodeState(limit.AppendState(nil, want.State()))
			if err != nil || len(rest) > 0 || !reflect.DeepEqual(s, want.State()) {
				t.Fatalf("%+v came back as %+v, %v", want.State(), s, err)
			}
			forget := limit.ForgetAt(unlimited, s)
			if end == 0 && forget != limit.Forever || end != 0 && forget != end {
				t.Errorf("%+v is forgotten at %d", want, forget)
			}
			for _, now := range []limit.Time{0, 49, 50, limit.MaxTime} {
				got, known := limit.TallyOf(s, now)
				if there := end == 0 || now < end; known != there || known && got != want ||
					!known && got != (limit.Tally{}) {
					t.Errorf("%+v is %+v, %v at %d", want, got, known, now)
				}
			}
		}
	}
}

// Every function that counts on a tally counts on its integer, and keeps its end.
func TestOtherOperationsCountOnATally(t *testing.T) {
	const most = 1 << 62
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		value, end, now := edges[rnd.IntN(len(edges))], limit.Time(rnd.IntN(3)*100), limit.Time(rnd.IntN(300))
		cost := []uint64{1, 5, limit.MaxCost}[rnd.IntN(3)]
		s := limit.Tally{Value: value, EndsAt: end}.State()
		ended := end != 0 && now >= end
		want := new(big.Int).Add(big.NewInt(value), new(big.Int).SetUint64(cost))
		switch {
		case ended:
			want, end = new(big.Int).SetUint64(cost), 0
		case value >= most:
			want = big.NewInt(value)
		case want.Cmp(big.NewInt(most)) > 0:
			want = big.NewInt(most)
		}
		taken, v := limit.Take(unlimited, s, cost, now)
		added, _ := limit.Add(unlimited, s, cost, now)
		got, known := limit.TallyOf(taken, now)
		if !known || got.Value != want.Int64() || got.EndsAt != end || !reflect.DeepEqual(added, taken) {
			t.Fatalf("%d until %d and %d at %d make %+v, must be %v until %d", value, end, cost, now, got, want, end)
		}
		if v != limit.Status(unlimited, taken, now) || v.Used != uint64(max(0, got.Value)) || v.ResetAt != end ||
			!v.Allowed {
			t.Fatalf("%+v is shown as %+v", got, v)
		}
		if back := limit.Refund(unlimited, taken, cost, now, now); !ended && !reflect.DeepEqual(back, taken) {
			t.Fatalf("%+v gave back: %+v", got, back)
		}
		set, known := limit.TallyOf(limit.SetUsed(unlimited, taken, 7, now), now)
		if !known || set != (limit.Tally{Value: 7, EndsAt: end}) {
			t.Fatalf("%+v set to 7 is %+v", got, set)
		}
		if s := limit.SetUsed(unlimited, taken, 0, now); !reflect.DeepEqual(s, limit.State{}) {
			t.Fatalf("%+v set to nothing is %+v, not at rest", got, s)
		}
	}
}

// States that no Tally makes can still be read: a decoder accepts them.
func TestATallyOfAnyStateIsRead(t *testing.T) {
	for _, a := range []uint64{0, 1, 1 << 62} {
		for _, b := range []uint64{0, 1, 2, 3, 5, 7, 9, 11, 13, 15, 1 << 62, 1<<62 - 1} {
			s := limit.State{A: a, B: b}
			if _, _, err := limit.DecodeState(limit.AppendState(nil, s)); err != nil {
				t.Fatal(err)
			}
			read, _ := limit.TallyOf(s, 0)
			if again, _ := limit.TallyOf(read.State(), 0); again != read {
				t.Errorf("%+v reads as %+v, and that as %+v", s, read, again)
			}
			limit.Take(unlimited, s, limit.MaxCost, 0)
			limit.Refund(unlimited, s, limit.MaxCost, 0, 0)
		}
	}
}
