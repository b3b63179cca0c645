package limit_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

// small has limits with edge cases that a few hundred random requests all reach.
var small = []limit.Limit{
	{Algorithm: limit.FixedWindow, Quota: 5, Period: 50},
	{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: 50},
	{Algorithm: limit.SlidingWindow, Quota: 7, Period: 50},
	{Algorithm: limit.SlidingBuckets, Quota: 7, Period: 50, Bucket: 10},
	{Algorithm: limit.SlidingLog, Quota: 7, Period: 50},
	{Algorithm: limit.TokenBucket, Quota: 7, Period: 50, Count: 3, Initial: 7},
	{Algorithm: limit.TokenBucket, Quota: 7, Period: 50, Count: 3, Initial: 2},
	{Algorithm: limit.GCRA, Quota: 7, Period: 50, Count: 3},
	{Algorithm: limit.Calendar, Quota: 5, Cycle: &limit.Cycle{Unit: limit.Minute, Every: 1, Zone: mustLoad("")}},
	{Algorithm: limit.Lifetime, Quota: 100},
	{Algorithm: limit.Concurrency, Quota: 100},
	{Algorithm: limit.Unlimited},
}

// pace returns an amount of time. About 50 of it make a period.
func pace(l limit.Limit) limit.Time {
	if l.Algorithm == limit.Calendar {
		return 1_000_000
	}
	return 1
}

// walk makes random requests and calls visit after each.
func walk(
	l limit.Limit, seed uint64, visit func(rng *rand.Rand, s limit.State, v limit.Verdict, cost uint64, now limit.Time),
) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var s limit.State
	now := limit.Time(rng.IntN(1000)) * pace(l)
	for range 400 {
		now += limit.Time(rng.IntN(3)*rng.IntN(20)) * pace(l)
		cost := 1 + rng.Uint64N(4)
		var v limit.Verdict
		s, v = limit.Take(l, s, cost, now)
		visit(rng, s, v, cost, now)
	}
}

func TestRetryAfterIsTheFirstInstantThatAdmits(t *testing.T) {
	for _, l := range small {
		denials := 0
		for seed := range uint64(20) {
			walk(l, seed, func(_ *rand.Rand, s limit.State, v limit.Verdict, cost uint64, now limit.Time) {
				if v.Allowed || v.RetryAfter == limit.Never {
					return
				}
				denials++
				at := now + limit.Time(v.RetryAfter)
				if !limit.Peek(l, s, cost, at).Allowed || limit.Peek(l, s, cost, at-1).Allowed {
					t.Fatalf("%+v: %+v at %d denied %d, but %d us later is not when it is admitted",
						l, s, now, cost, v.RetryAfter)
				}
			})
		}
		if denials == 0 && l.Algorithm != limit.Unlimited && l.Algorithm != limit.Lifetime &&
			l.Algorithm != limit.Concurrency {
			t.Errorf("%+v: nothing was denied", l)
		}
	}
}

func TestUsedAndRemainingAreTheQuota(t *testing.T) {
	for _, l := range small[:len(small)-1] {
		walk(l, 1, func(_ *rand.Rand, s limit.State, v limit.Verdict, _ uint64, now limit.Time) {
			if v.Used+v.Remaining != l.Quota {
				t.Fatalf("%+v at %d: %+v", l, now, v)
			}
		})
	}
}

// A limit admits in any span of time at most its quota plus the units that came back in that span.
func TestNoWindowAdmitsMoreThanItsQuota(t *testing.T) {
	type hit struct {
		at    limit.Time
		units uint64
	}
	for _, l := range small {
		var admitted []hit
		walk(l, 2, func(_ *rand.Rand, _ limit.State, v limit.Verdict, cost uint64, now limit.Time) {
			if v.Allowed {
				admitted = append(admitted, hit{now, cost})
			}
		})
		for i, first := range admitted {
			units := uint64(0)
			for _, h := range admitted[i:] {
				span := h.at - first.at
				units += h.units
				var most uint64
				switch l.Algorithm {
				case limit.FixedWindow:
					if first.at/50 != h.at/50 {
						continue
					}
					most = l.Quota
				case limit.SlidingBuckets:
					if h.at/10-first.at/10 >= 5 {
						continue
					}
					most = l.Quota
				case limit.SlidingLog:
					if span >= 50 {
						continue
					}
					most = l.Quota
				case limit.TokenBucket, limit.GCRA:
					most = l.Quota + uint64(span)*3/50
				case limit.Lifetime, limit.Concurrency:
					most = l.Quota
				case limit.Calendar:
					if first.at/60_000_000 != h.at/60_000_000 {
						continue
					}
					most = l.Quota
				default: // two windows overlap any span of one Period
					if span >= 50 {
						continue
					}
					most = 2 * l.Quota
				}
				if units > most && l.Algorithm != limit.Unlimited {
					t.Fatalf("%+v: %d units from %d to %d", l, units, first.at, h.at)
				}
			}
		}
	}
}

// From ForgetAt on, nothing distinguishes the State from the zero State. One microsecond earlier something does.
func TestAForgottenStateIsTheZeroState(t *testing.T) {
	for _, l := range small {
		walk(l, 3, func(rng *rand.Rand, s limit.State, v limit.Verdict, _ uint64, now limit.Time) {
			at := limit.ForgetAt(l, s)
			if at == limit.Forever || at <= now {
				if at != limit.Forever && !reflect.DeepEqual(s, limit.State{}) {
					t.Fatalf("%+v: %+v counts nothing at %d", l, s, now)
				}
				return
			}
			if limit.Status(l, s, at-1) == limit.Status(l, limit.State{}, at-1) {
				t.Fatalf("%+v: %+v is at rest before %d", l, s, at)
			}
			kept, forgotten, later := s, limit.State{}, at
			for range 20 {
				cost := 1 + rng.Uint64N(4)
				var v, w limit.Verdict
				kept, v = limit.Take(l, kept, cost, later)
				forgotten, w = limit.Take(l, forgotten, cost, later)
				if v != w {
					t.Fatalf("%+v: %+v forgotten at %d: %+v, kept: %+v", l, s, at, w, v)
				}
				later += limit.Time(rng.IntN(30)) * pace(l)
			}
		})
	}
	for _, l := range small {
		if at := limit.ForgetAt(l, limit.State{}); at != 0 {
			t.Errorf("%+v: the zero state is forgotten at %d", l, at)
		}
	}
}

// A refund never leaves more room than before the request, or than a key at rest has.
func TestRefundGivesBackWhatWasTakenAndNoMore(t *testing.T) {
	for _, l := range small {
		walk(l, 4, func(rng *rand.Rand, s limit.State, v limit.Verdict, cost uint64, now limit.Time) {
			taken, counted := limit.Take(l, s, cost, now)
			if counted.Allowed {
				if back := limit.Status(l, limit.Refund(l, taken, cost, now, now),
					now); back.Used != limit.Status(l, s, now).Used &&
					l.Initial == l.Quota {
					t.Fatalf("%+v: %+v, %d taken and given back: %+v", l, s, cost, back)
				}
			}
			all := limit.Status(l, limit.Refund(l, s, limit.MaxCost, now, now), now)
			if all.Used > v.Used || all.Used+all.Remaining != l.Quota && l.Algorithm != limit.Unlimited {
				t.Fatalf("%+v: %+v, everything given back: %+v", l, s, all)
			}
		})
	}
}

// Remaining is exactly the largest cost that would be admitted.
func TestRemainingIsTheMostThatIsAdmitted(t *testing.T) {
	for _, l := range small[:len(small)-1] {
		seen := map[bool]int{}
		walk(l, 8, func(rng *rand.Rand, s limit.State, _ limit.Verdict, cost uint64, now limit.Time) {
			if rng.IntN(10) == 0 {
				s, _ = limit.Add(l, s, cost*2, now) // sometimes past the quota
			}
			remaining := limit.Status(l, s, now).Remaining
			seen[remaining == 0]++
			if remaining > 0 && !limit.Peek(l, s, remaining, now).Allowed {
				t.Fatalf("%+v at %d: %+v does not admit the %d that remain", l, now, s, remaining)
			}
			if limit.Peek(l, s, remaining+1, now).Allowed {
				t.Fatalf("%+v at %d: %+v admits more than the %d that remain", l, now, s, remaining)
			}
		})
		if seen[true] == 0 || seen[false] == 0 {
			t.Errorf("%+v: not mixed: %v", l, seen)
		}
	}
}

// StillCounts is true exactly when a Refund finds something, for every instant at which units were taken.
func TestStillCountsForetellsRefund(t *testing.T) {
	for _, l := range small {
		var taken []limit.Time
		seen := map[bool]int{}
		walk(l, 9, func(rng *rand.Rand, s limit.State, v limit.Verdict, _ uint64, now limit.Time) {
			if v.Allowed {
				taken = append(taken, now)
			}
			if len(taken) == 0 {
				return
			}
			now += limit.Time(rng.IntN(40)) * pace(l)
			at := taken[max(0, len(taken)-1-rng.IntN(20))]
			back := limit.Refund(l, s, limit.MaxCost, at, now)
			found := limit.Status(l, back, now).Used != limit.Status(l, s, now).Used
			seen[found]++
			if found != limit.StillCounts(l, s, at, now) {
				t.Fatalf("%+v: %+v at %d: what was taken at %d counts is %v, but a refund leaves %+v",
					l, s, now, at, !found, back)
			}
		})
		if forever := limit.ForgetAt(l, countedOnce(l)) == limit.Forever; seen[true] == 0 ||
			seen[false] == 0 && !forever {
			t.Errorf("%+v: not mixed: %v", l, seen)
		}
	}
}

func countedOnce(l limit.Limit) limit.State {
	s, _ := limit.Add(l, limit.State{}, 1, noon)
	return s
}

// SetUsed leaves exactly this many units used, like one take of them, and the end of an open window stays.
func TestSetUsedIsExact(t *testing.T) {
	for _, l := range small {
		walk(l, 10, func(rng *rand.Rand, s limit.State, v limit.Verdict, _ uint64, now limit.Time) {
			used := rng.Uint64N(2*l.Quota + 3)
			set := limit.SetUsed(l, s, used, now)
			if used == 0 {
				if !reflect.DeepEqual(set, limit.State{}) {
					t.Fatalf("%+v: nothing used is %+v", l, set)
				}
				return
			}
			got := limit.Status(l, set, now)
			if got.Used != used || got.Remaining != l.Quota-min(l.Quota, used) {
				t.Fatalf("%+v: %+v set to %d used: %+v", l, s, used, got)
			}
			if window := limit.Status(l, s, now); window.ResetAt > now && window.WindowStart > 0 &&
				(got.WindowStart != window.WindowStart || got.ResetAt != window.ResetAt) {
				t.Fatalf("%+v: the window %+v became %+v", l, window, got)
			}
			if back := limit.Refund(l, set, used, now, now); limit.Status(l, back, now).Used != 0 {
				t.Fatalf("%+v: %d set, and given back: %+v", l, used, back)
			}
		})
	}
	l := limit.Limit{Algorithm: limit.Lifetime, Quota: 1}
	if s := limit.SetUsed(l, limit.State{}, math.MaxUint64, noon); s.A != 1<<62 {
		t.Errorf("saturates at %d", s.A)
	}
}

// A State is a value: two successors of one State do not affect each other.
func TestTakeChangesNoOlderState(t *testing.T) {
	for _, l := range small {
		walk(l, 5, func(rng *rand.Rand, s limit.State, _ limit.Verdict, cost uint64, now limit.Time) {
			before := limit.State{T: s.T, A: s.A, B: s.B, Points: slices.Clone(s.Points)}
			one, _ := limit.Take(l, s, cost, now+7)
			seen := limit.AppendState(nil, one)
			two, _ := limit.Add(l, s, cost+1, now+9)
			limit.Refund(l, one, 1, now, now+11)
			limit.Add(l, two, 1, now+13)
			child, _ := limit.Add(l, one, cost, now+20)
			seenOfChild := limit.AppendState(nil, child)
			limit.Add(l, limit.Refund(l, one, 1, now+7, now+20), cost, now+21)
			if !slices.Equal(limit.AppendState(nil, child), seenOfChild) {
				t.Fatalf("%+v: %+v was changed by its sibling", l, child)
			}
			if !slices.Equal(limit.AppendState(nil, s), limit.AppendState(nil, before)) ||
				!slices.Equal(limit.AppendState(nil, one), seen) {
				t.Fatalf("%+v: %+v was changed to %+v", l, before, s)
			}
		})
	}
}

func TestTakeDoesNotAllocateWhileTimeStandsStill(t *testing.T) {
	for _, l := range examples {
		s, _ := limit.Take(l.Limit, limit.State{}, 1, noon)
		s, _ = limit.Take(l.Limit, s, 1, noon+limit.Time(minute))
		now, step := noon+limit.Time(minute), limit.Time(1000)
		if l.Algorithm == limit.SlidingLog {
			step = 0 // a new instant is a new Point
		}
		if allocs := testing.AllocsPerRun(100, func() {
			now += step
			s, _ = limit.Take(l.Limit, s, 1, now)
			limit.Peek(l.Limit, s, 1, now)
		}); allocs != 0 {
			t.Errorf("%s: %v allocations", l.name, allocs)
		}
	}
}

func TestBrokenPreconditionsPanicWithTheNumbers(t *testing.T) {
	l := limit.Limit{Algorithm: limit.Lifetime, Quota: 1}
	for name, call := range map[string]func(){
		"limit: cost is 0, outside 1..1099511627776": func() { limit.Take(l, limit.State{}, 0, 0) },
		"limit: cost is 1099511627777, outside 1..1099511627776": func() {
			limit.Peek(l, limit.State{}, limit.MaxCost+1, 0)
		},
		"limit: now is -1, outside 0..2305843009213693952": func() {
			limit.Status(l, limit.State{}, -1)
		},
		"limit: 0 is not an algorithm":           func() { limit.Take(limit.Limit{}, limit.State{}, 1, 0) },
		"limit: 200 is not an algorithm":         func() { limit.ForgetAt(limit.Limit{Algorithm: 200}, limit.State{}) },
		"limit: refund at 5 of a take made at 6": func() { limit.Refund(l, limit.State{}, 1, 6, 5) },
	} {
		func() {
			defer func() {
				if got := recover(); got != name {
					t.Errorf("panic %v, want %s", got, name)
				}
			}()
			call()
		}()
	}
}
