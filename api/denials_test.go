package api

import (
	"slices"
	"testing"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// A denial is counted for each limit that denied, and once for the block of a key. Names that a caller may choose are
// counted as inline.
func TestDenialsAreToldByLimit(t *testing.T) {
	no, yes := limit.Verdict{}, limit.Verdict{Allowed: true}
	denied := shard.Decision{Limits: []shard.LimitStatus{
		{Policy: "login", Limit: "minute", Key: "k", Verdict: no},
		{Policy: "login", Limit: "day", Key: "k", Verdict: yes},
		{Policy: "login", Limit: "shadow", Key: "k", Shadow: true, Verdict: no},
		{Policy: "ban", Limit: "a", Key: "k", Blocked: true, BlockedUntil: 1, LockoutLevel: 2, Verdict: yes},
		{Policy: "ban", Limit: "b", Key: "k", Blocked: true, BlockedUntil: 1, LockoutLevel: 2, Verdict: yes},
		{Policy: "any name", Limit: "of a caller", Key: "k", Verdict: no},
	}}
	allowed, replayed := denied, denied
	allowed.Allowed, replayed.Replayed = true, true
	observer := &fakeObserver{}
	r := shard.Request{Op: shard.Check, Namespace: "shop",
		Entries: []shard.Entry{{Policy: "login", Key: "k"}, {Policy: "ban", Key: "k"},
			{Policy: "any name", Key: "k", Limits: []policy.Limit{{}}}}}
	count := func(d shard.Decision) {
		var e decisions.Event
		e.Ask(decisions.Asked{Requests: []shard.Request{r}, Results: []shard.Result{{Decision: d}}})
		e.CountDenials(observer)
	}
	count(allowed)
	count(replayed)
	if len(observer.denials) > 0 {
		t.Errorf("without a denial: %q", observer.denials)
	}
	count(denied)
	if want := []string{"shop login/minute", "shop inline/inline",
		"shop ban/lockout"}; !slices.Equal(observer.denials, want) {
		t.Errorf("got %q, want %q", observer.denials, want)
	}
}
