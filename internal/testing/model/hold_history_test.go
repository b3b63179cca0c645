package model

import (
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The two holds of honestHolds: one that expires into a violation, which blocks, and one that is settled.
var (
	firstHold  = Target{Hold: true, Place: Place{Epoch: 1, Seq: 1, At: 100}, Index: 1}
	secondHold = Target{Hold: true, Place: Place{Epoch: 1, Seq: 4, At: 170}, Index: 1}
)

// honestHolds is a short correct history: of three units two are reserved, which expires into a block; then one is
// reserved and given back, twice in the same way, and refused in another way.
func honestHolds() []Decided {
	charge := func(cost uint64) []Charge { return []Charge{{Policy: "three", Key: "k", Cost: cost}} }
	said := func(used, held uint64, level uint32, until limit.Time, allowed bool, wait limit.Span) []Status {
		return []Status{{Limit: "three", Quota: 3, Held: held, LockoutLevel: level, BlockedUntil: until,
			Blocked: until != 0, Verdict: limit.Verdict{Allowed: allowed, Used: used, Remaining: 3 - used,
				RetryAfter: wait}}}
	}
	at := func(seq uint64, at limit.Time) Place { return Place{Epoch: 1, Seq: seq, At: at} }
	cancel := &Settlement{Target: secondHold, Action: Cancel}
	cancelled := Answer{Place: at(5, 180), Index: 1, Allowed: true, Limits: said(2, 0, 1, 0, true, 0)}
	again := cancelled
	again.Replayed = true
	return []Decided{
		{Place: at(1, 100), Op: Reserve, Charges: charge(2), TTL: 50, Answer: Answer{Place: at(1, 100), Index: 1,
			Allowed: true, HoldExpires: 150, Limits: said(2, 2, 0, 0, true, 0)}},
		{Place: at(2, 149), Op: Get, Charges: charge(1), Answer: Answer{Place: at(2, 149), Allowed: true,
			Limits: said(2, 2, 0, 0, true, 0)}},
		{Place: at(3, 155), Op: Take, Charges: charge(1), Answer: Answer{Place: at(3, 155), RetryAfter: 15,
			Limits: said(2, 0, 1, 170, true, 0)}},
		{Place: at(4, 170), Op: Reserve, Charges: charge(1), TTL: 50, Answer: Answer{Place: at(4, 170), Index: 1,
			Allowed: true, HoldExpires: 220, Limits: said(3, 1, 1, 0, true, 0)}},
		{Place: at(5, 180), Op: Settle, Charges: charge(1), Settlement: cancel, Answer: cancelled},
		{Place: at(6, 190), Op: Settle, Charges: charge(1), Settlement: cancel, Answer: again},
		{Place: at(6, 190), Op: Settle, Charges: charge(1), Settlement: &Settlement{Target: secondHold, Action: Commit},
			Refused: HoldEnded},
		{Place: at(6, 190), Op: Settle, Charges: charge(2), Settlement: &Settlement{Target: firstHold, Action: Commit},
			Refused: HoldEnded},
	}
}

func judgeHolds(history []Decided) error {
	h := NewHistory(&policy.Policy{Name: "three", Retention: 1000, OnExpire: policy.OnExpireCommit,
		Lockout: &policy.Lockout{After: 1, Base: 20, Factor: 2, Max: 100, ForgiveAfter: 500},
		Limits:  []policy.Limit{{Name: "three", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 3}}}})
	h.told = searched // so that none of these is searched: the instants have their own test
	for i := range history {
		if err := h.Decide(&history[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestHonestHolds(t *testing.T) {
	if err := judgeHolds(honestHolds()); err != nil {
		t.Fatal(err)
	}
}

// Every lie of a shard about holds is detected.
func TestLiesAboutHoldsAreSeen(t *testing.T) {
	for name, lie := range map[string]struct {
		tell func([]Decided)
		says string
	}{
		"expires at another time": {func(h []Decided) { h[0].Answer.HoldExpires++ },
			"the hold expires at 151, must at 150"},
		"holds less":                {func(h []Decided) { h[1].Answer.Limits[0].Held = 0 }, "must be"},
		"expires too early":         {func(h []Decided) { h[1].Place.At, h[1].Answer.Place.At = 150, 150 }, "must be"},
		"expires into another end":  {func(h []Decided) { h[2].Answer.Limits[0].Used = 0 }, "must be"},
		"blocks from when it looks": {func(h []Decided) { h[2].Answer.Limits[0].BlockedUntil = 175 }, "must be"},
		"blocks nobody":             {func(h []Decided) { h[2].Answer.Allowed = true }, "allowed is true, must be false"},
		"forgets the ladder":        {func(h []Decided) { h[3].Answer.Limits[0].LockoutLevel = 0 }, "must be"},
		"gives nothing back":        {func(h []Decided) { h[4].Answer.Limits[0].Used = 3 }, "must be"},
		"numbers no settlement":     {func(h []Decided) { h[4].Answer.Index = 0 }, "the counted decision 1"},
		"settles again":             {func(h []Decided) { h[5].Answer.Replayed = false }, "is settled again"},
		"settles in two ways":       {func(h []Decided) { h[6].Refused = NotRefused }, "refused: no, must be hold ended"},
		"commits what has expired": {
			func(h []Decided) { h[7].Refused = NotRefused },
			"refused: no, must be hold ended"},
		"knows no hold": {func(h []Decided) { h[4].Refused = HoldEnded }, "refused: hold ended, must be no"},
	} {
		t.Run(name, func(t *testing.T) {
			history := honestHolds()
			lie.tell(history)
			switch err := judgeHolds(history); {
			case err == nil:
				t.Fatal("the history passed")
			case !strings.Contains(err.Error(), lie.says):
				t.Fatalf("%q says nothing of %q", err, lie.says)
			}
		})
	}
}
