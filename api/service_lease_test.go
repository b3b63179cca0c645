package api

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// leasing grants a lease of 40 units for 2 s, if one is asked for.
func leasing(r shard.Request) shard.Result {
	var leased shard.Leased
	if r.System.Lease.Number != 0 {
		leased = shard.Leased{Units: 40, Ends: noon + 2e6}
	}
	return shard.Result{Decision: shard.Decision{DecidedAt: noon, Position: shard.Position{Shard: 3, Epoch: 7, Seq: 9},
		Limits: []shard.LimitStatus{{Policy: "per-ip", Limit: "minute", Key: r.Entries[0].Key, Quota: 100,
			Verdict: limit.Verdict{Used: 60, Remaining: 40, RetryAfter: 5}}},
		System: &shard.SystemAnswer{Lease: &leased}}}
}

const holderName = "HOLDERHOLDERHOLDER"

// A holder outside the cluster asks a shard what nodes ask it, and hears for how long it may spend the lease: 500 ms
// and 0.2 % less than it lives.
func TestALeaseIsPassedOn(t *testing.T) {
	w := newWorld(t)
	p := *twoPolicies()[0]
	p.Headers = []string{policy.StyleIETF}
	w.revision = &policy.Revision{Version: 8, Set: policy.NewSet([]*policy.Policy{&p})}
	w.decider.decide = leasing
	limits := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url)
	answer, err := limits.Lease(t.Context(),
		connect.NewRequest(&stintv1.LeaseRequest{Namespace: "shop", Policy: "per-ip", Key: "k",
			Tier: "gold", Holder: holderName, Number: 2, Units: 50, Returned: 1, Spent: 30}))
	if err != nil {
		t.Fatal(err)
	}
	want := shard.Request{Op: shard.Lease, Namespace: "shop",
		Entries: []shard.Entry{{Policy: "per-ip", Key: "k", Tier: "gold"}},
		System: &shard.SystemTerms{Lease: &shard.LeaseTerms{Holder: holderName, Number: 2, Units: 50, Returned: 1,
			Spent: 30}}}
	if got := w.last(); !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v with %+v", got, got.System)
	}
	m, d := answer.Msg, answer.Msg.Decision
	if m.Units != 40 || m.SpendWithin.AsDuration() != 1496*time.Millisecond ||
		m.EndsAt.AsTime().UnixMicro() != int64(noon+2e6) {
		t.Errorf("granted %v", m)
	}
	if s := d.Limits[0]; !d.Allowed || !d.Leased || d.DecisionId != "" || d.Positions[0].Seq != 9 || s.Used != 60 ||
		!s.Allowed || s.RetryAfter != nil || d.Headers["RateLimit"] == "" {
		t.Errorf("the holder answers %v", d)
	}
	if answer, err = limits.Lease(t.Context(),
		connect.NewRequest(&stintv1.LeaseRequest{Policy: "per-ip", Key: "k", Holder: holderName,
			Returned: 2})); err != nil || answer.Msg.Units != 0 || answer.Msg.Decision != nil {
		t.Errorf("a return is answered %v, %v", answer, err)
	}
	if seen := w.observer.seen(); !reflect.DeepEqual(seen, []string{"request Lease ok", "request Lease ok"}) {
		t.Errorf("a lease is no decision: %v", seen)
	}
}

// The cluster believes a holder, so a token that may check is no holder.
func TestALeaseNeedsItsOwnGrant(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	k.add(t, "web", "policy=per-ip key=user:* tier=gold ops=lease")
	k.add(t, "others", "ops=check,settle,read,adjust,override,observe-keys,usage,inline,correct")
	w := newGuardedWorld(t, k.guard)
	w.decider.decide = leasing
	for _, c := range []struct {
		token, policy, key, tier string
		allowed                  bool
	}{{"root", "per-ip", "ip", "", true}, {"web", "per-ip", "user:1", "", true},
		{"web", "per-ip", "user:1", "gold", true}, {"web", "per-ip", "user:1", "silver", false},
		{"web", "per-ip", "ip", "", false}, {"web", "other", "user:1", "", false},
		{"others", "per-ip", "user:1", "", false}} {
		_, err := stintv1connect.NewLimitServiceClient(withToken(k.text[c.token]), w.url).Lease(t.Context(),
			connect.NewRequest(&stintv1.LeaseRequest{Policy: c.policy, Key: c.key, Tier: c.tier, Holder: holderName,
				Number: 1, Units: 1}))
		if refused := connect.CodeOf(err) == connect.CodePermissionDenied; err != nil && !refused ||
			refused == c.allowed {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
