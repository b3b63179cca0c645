package limit_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
)

// What is set aside is missing from what is left, and from nothing else.
func TestUnitsSetAsideAreUsed(t *testing.T) {
	for _, l := range small {
		walk(l, 3, func(rng *rand.Rand, s limit.State, _ limit.Verdict, cost uint64, now limit.Time) {
			aside := rng.Uint64N(10)
			whole, rest := limit.Status(l, s, now), limit.Status(l.Without(aside), s, now)
			if want := whole.Remaining - min(whole.Remaining, aside); rest.Remaining != want ||
				rest.ResetAt != whole.ResetAt {
				t.Fatalf("%+v without %d: %+v, whole it is %+v", l, aside, rest, whole)
			}
			next, v := limit.Take(l.Without(aside), s, cost, now)
			if want, _ := limit.Take(l, s, cost, now); v.Allowed && !reflect.DeepEqual(next, want) ||
				!v.Allowed && !reflect.DeepEqual(next, s) {
				t.Fatalf("%+v without %d: a take of %d leads from %+v to %+v, not %+v", l, aside, cost, s, next, want)
			}
		})
	}
}

func TestAWindowEndsWhenItsUnitsDo(t *testing.T) {
	for _, l := range small {
		walk(l, 4, func(_ *rand.Rand, s limit.State, v limit.Verdict, _ uint64, now limit.Time) {
			want := limit.Forever
			if l.Algorithm == limit.FixedWindow || l.Algorithm == limit.FixedWindowFirstHit ||
				l.Algorithm == limit.Calendar {
				_, v = limit.Add(l, s, 1, now)
				want = v.ResetAt
			}
			if got := limit.WindowEnd(l, s, now); got != want {
				t.Fatalf("%+v at %d: %d, must be %d", l, now, got, want)
			}
		})
	}
}

// What is spent late counts as if the mark were as late, and until then the limit is full.
func TestAFullLimitMayBeSpentLate(t *testing.T) {
	for _, l := range small {
		rng := rand.New(rand.NewPCG(5, 0))
		for range 200 {
			at, late := limit.Time(rng.IntN(1000))*pace(l), limit.Span(rng.IntN(90))*limit.Span(pace(l))
			full := limit.Full{At: at, Hold: 5, Late: late}
			then := limit.Full{At: at + limit.Time(late), Hold: 5}
			forever := l.Algorithm == limit.Lifetime || l.Algorithm == limit.Unlimited ||
				l.Algorithm == limit.Concurrency
			if now := at + limit.Time(rng.Int64N(int64(late)+1)); !forever &&
				limit.Peek(l, full.State(l, now), 1, now).Allowed && now < then.At {
				t.Fatalf("%+v: a limit that is full until %d admits at %d", l, then.At, now)
			}
			for now := then.At; !forever && now < then.At+200*pace(l); now += pace(l) * limit.Time(1+rng.IntN(9)) {
				got, want := limit.Status(l, full.State(l, now), now), limit.Status(l, then.State(l, now), now)
				if got.Remaining != want.Remaining {
					t.Fatalf("%+v, full until %d: at %d %+v, must be %+v", l, then.At, now, got, want)
				}
			}
		}
	}
}
