package model

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// honest is a short correct history: a lifetime limit of 2, an id asked twice, a denial, a read.
func honest() []Decided {
	charge := []Charge{{Policy: "two", Key: "k", Cost: 1}}
	used := func(n uint64) []Status { return two(limit.Verdict{Allowed: true, Used: n, Remaining: 2 - n}) }
	first := Place{Epoch: 3, Seq: 1, At: 100}
	second := Place{Epoch: 3, Seq: 2, At: 101}
	third := Place{Epoch: 9, Seq: 1, At: 250}
	one := Answer{Place: first, Index: 1, Allowed: true, Limits: used(1)}
	replay := one
	replay.Replayed = true
	return []Decided{
		{Place: first, Op: Take, ID: "a", Charges: charge, Answer: one},
		{Place: second, Op: Take, ID: "a", Charges: charge, Answer: replay},
		{Place: second, Op: Take, Charges: charge,
			Answer: Answer{Place: second, Index: 1, Allowed: true, Limits: used(2)}},
		{Place: third, Op: Take, ID: "b", Charges: charge, Answer: Answer{Place: third, RetryAfter: limit.Never,
			Limits: two(limit.Verdict{Used: 2, RetryAfter: limit.Never})}},
		{Place: third, Op: Get, Charges: charge, Answer: Answer{Place: third, Allowed: true, Limits: used(2)}},
	}
}

// two is the status of the only limit.
func two(v limit.Verdict) []Status { return []Status{{Limit: "two", Quota: 2, Verdict: v}} }

func judgeAll(history []Decided) error {
	h := NewHistory(&policy.Policy{Name: "two", Retention: 1000,
		Limits: []policy.Limit{{Name: "two", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 2}}}})
	for i := range history {
		if err := h.Decide(&history[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestHonestHistory(t *testing.T) {
	if err := judgeAll(honest()); err != nil {
		t.Fatal(err)
	}
}

// Every lie of a shard is detected.
func TestLiesAreSeen(t *testing.T) {
	for name, lie := range map[string]struct {
		tell func([]Decided) []Decided
		says string
	}{
		"admits too much": {func(h []Decided) []Decided {
			h[3].Answer = Answer{Place: h[3].Place, Index: 1, Allowed: true,
				Limits: two(limit.Verdict{Allowed: true, Used: 3})}
			return h
		}, "allowed is true, must be false"},
		"denies too early": {func(h []Decided) []Decided {
			h[2].Answer.Allowed = false
			return h
		}, "allowed is false, must be true"},
		"forgets a charge": {func(h []Decided) []Decided { return append(h[:2:2], h[3:]...) }, "must be"},
		"counts an id twice": {func(h []Decided) []Decided {
			h[1].Answer = Answer{Place: h[1].Place, Index: 1, Allowed: true,
				Limits: two(limit.Verdict{Allowed: true, Used: 2})}
			return h
		}, "decided again"},
		"replays another answer": {func(h []Decided) []Decided {
			h[1].Answer.Limits = two(limit.Verdict{Allowed: true, Used: 2})
			return h
		}, "the original said"},
		"replays what was denied": {func(h []Decided) []Decided {
			again := h[3]
			again.Answer.Replayed = true
			return append(h, again)
		}, "from a record"},
		"replays an id after its retention": {func(h []Decided) []Decided {
			late := h[1]
			late.Place = Place{Epoch: 9, Seq: 2, At: 1100}
			return append(h, late)
		}, "forgotten"},
		"takes an id for two requests": {func(h []Decided) []Decided {
			h[1].Charges = []Charge{{Policy: "two", Key: "other", Cost: 1}}
			return h
		}, "same request is false"},
		"refuses an id that it knows": {func(h []Decided) []Decided {
			h[1].Refused = IDReused
			return h
		}, "same request is true"},
		"turns time back": {func(h []Decided) []Decided {
			h[3].Place.At, h[3].Answer.Place.At = 50, 50
			return h
		}, "shard time"},
		"lets time stand still": {func(h []Decided) []Decided {
			h[3].Place.At, h[3].Answer.Place.At = 101, 101
			return h
		}, "shard time"},
		"goes back to an old epoch": {func(h []Decided) []Decided {
			h[3].Place.Epoch, h[3].Answer.Place.Epoch = 2, 2
			return h
		}, "an entry at"},
		"uses a place twice": {func(h []Decided) []Decided {
			h[3].Place = Place{Epoch: 3, Seq: 2, At: 250}
			h[3].Answer.Place = h[3].Place
			return h
		}, "an entry at"},
		"numbers nothing": {func(h []Decided) []Decided {
			h[3].Answer.Index = 1
			return h
		}, "nothing was counted"},
		"numbers twice": {func(h []Decided) []Decided {
			h[2].Answer.Index = 2
			return h
		}, "has index 2"},
		"claims another place": {func(h []Decided) []Decided {
			h[4].Answer.Place.Seq = 7
			return h
		}, "says that it was made at"},
		"reads what is not": {func(h []Decided) []Decided {
			h[4].Answer.Limits = two(limit.Verdict{Allowed: true, Used: 1, Remaining: 1})
			return h
		}, "must be"},
		"leaves a limit out": {func(h []Decided) []Decided {
			h[4].Answer.Limits = nil
			return h
		}, "fewer"},
	} {
		t.Run(name, func(t *testing.T) {
			err := judgeAll(lie.tell(honest()))
			if err == nil {
				t.Fatal("the history passed")
			}
			if !strings.Contains(err.Error(), lie.says) {
				t.Fatalf("%q says nothing of %q", err, lie.says)
			}
		})
	}
}

// The instants are searched for on only one decision in 32. That is enough to detect a limit that computes them
// wrongly.
func TestInstantsAreSearchedFor(t *testing.T) {
	h := NewHistory(&policy.Policy{Name: "p", Limits: []policy.Limit{{Name: "l",
		Limit: limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 1, Period: 50}}}})
	charge := []Charge{{Policy: "p", Key: "k", Cost: 1}}
	for i := range searched {
		p := Place{Epoch: 1, Seq: uint64(i + 1), At: limit.Time(1 + i)}
		d := Decided{Place: p, Op: Get, Charges: charge, Answer: Answer{Place: p, Allowed: true,
			Limits: []Status{{Limit: "l", Quota: 1,
				Verdict: limit.Verdict{Allowed: true, Remaining: 1, ResetAt: p.At + 1}}}}}
		if err := h.Decide(&d); (err != nil) != (i == searched-1) {
			t.Fatalf("decision %d with a wrong reset at: %v", i, err)
		}
	}
}

func TestLedger(t *testing.T) {
	l := Ledger{Acked: 5, Unknown: 2}
	for final, ok := range map[uint64]bool{4: false, 5: true, 7: true, 8: false} {
		if err := l.Settle(final); (err == nil) != ok {
			t.Errorf("%d: %v", final, err)
		}
	}
}

func TestLinearizable(t *testing.T) {
	const quota = 2
	take := func(from, to int64, used uint64) Observed {
		return Observed{Called: from, Returned: to, Cost: 1, Allowed: true, Used: used}
	}
	held := func(from, to int64, claim uint32, used uint64) Observed {
		return Observed{Called: from, Returned: to, Cost: 1, Allowed: true, Used: used, Claim: claim}
	}
	settle := func(from, to int64, claim uint32, spent, used uint64) Observed {
		return Observed{Called: from, Returned: to, Claim: claim, Settles: true, Cost: spent, Allowed: true, Used: used}
	}
	gone := func(from, to int64, claim uint32) Observed {
		return Observed{Called: from, Returned: to, Claim: claim, Settles: true}
	}
	deny := func(from, to int64) Observed { return Observed{Called: from, Returned: to, Cost: 1, Used: 2} }
	for name, tt := range map[string]struct {
		operations []Observed
		ok         bool
	}{
		"overlapping":                       {[]Observed{take(0, 9, 2), take(1, 8, 1), deny(5, 9)}, true},
		"admitted after it was full":        {[]Observed{take(0, 1, 1), take(2, 3, 2), take(4, 5, 2)}, false},
		"a stale denial":                    {[]Observed{take(0, 1, 1), deny(2, 3), take(4, 5, 2)}, false},
		"a lost charge":                     {[]Observed{take(0, 1, 1), take(2, 3, 1)}, false},
		"an unknown one came late":          {[]Observed{{Cost: 1, Unknown: true}, take(2, 3, 1), deny(4, 5)}, true},
		"an unknown one came never":         {[]Observed{{Cost: 1, Unknown: true}, take(2, 3, 1), take(4, 5, 2)}, true},
		"an unknown one came, and did not":  {[]Observed{{Cost: 1, Unknown: true}, take(2, 3, 2), take(4, 5, 2)}, false},
		"an unknown one cannot come before": {[]Observed{take(2, 3, 2), {Called: 4, Cost: 1, Unknown: true}}, false},
		"time falls":                        {[]Observed{{Called: 0, Returned: 1, Allowed: true, At: 5}, take(2, 3, 1)}, false},
		"a hold is given back":              {[]Observed{held(0, 1, 1, 1), settle(2, 3, 1, 0, 0), take(4, 5, 1)}, true},
		"a hold is committed":               {[]Observed{held(0, 1, 1, 1), settle(2, 3, 1, 1, 1), take(4, 5, 2)}, true},
		"a hold ends twice":                 {[]Observed{held(0, 1, 1, 1), settle(2, 3, 1, 0, 0), settle(4, 5, 1, 1, 1)}, false},
		"a hold ends once, and then not":    {[]Observed{held(0, 1, 1, 1), settle(2, 3, 1, 0, 0), gone(2, 5, 1)}, true},
		"a hold ends before it ends":        {[]Observed{held(0, 1, 1, 1), gone(2, 3, 1), settle(4, 5, 1, 0, 0)}, false},
		"a settled hold is given back late": {
			[]Observed{held(0, 1, 1, 1),
				settle(2, 3, 1, 0, 0), take(4, 5, 2)},
			false},
		"an unknown settlement came": {[]Observed{held(0, 1, 1, 1),
			{Called: 2, Claim: 1, Settles: true, Unknown: true}, take(4, 5, 1)}, true},
		"an unknown settlement came never": {[]Observed{held(0, 1, 1, 1),
			{Called: 2, Claim: 1, Settles: true, Unknown: true}, take(4, 5, 2)}, true},
		"an unknown hold is full": {[]Observed{{Cost: 2, Claim: 1, Unknown: true}, deny(4, 5), deny(6, 7)}, true},
		"holds end in any order": {[]Observed{held(0, 1, 2, 1), held(2, 3, 1, 2), settle(4, 5, 2, 0, 1),
			settle(4, 6, 1, 0, 0)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Linearizable(quota, tt.operations, time.Minute); (err == nil) != tt.ok {
				t.Fatal(err)
			}
		})
	}
}
