package api

import (
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
)

// tieredPolicies has a policy with a tier that limits and one that lifts all limits.
func tieredPolicies() *policy.Set {
	plan, quota := *twoPolicies()[1], uint64(30)
	plan.Name, plan.Tiers = "plan", map[string]policy.Tier{"internal": {Unlimited: true},
		"gold": {Limits: map[string]policy.TierLimit{"burst": {Quota: &quota}}}}
	return policy.NewSet([]*policy.Policy{&plan})
}

// An override that names a tier needs the grant of that tier, as does a check that names one: otherwise a caller that
// may change overrides could give a key a tier that lifts its limits.
func TestAnOverrideGivesOnlyTiersThatAreGranted(t *testing.T) {
	k := newTokens()
	quota := uint64(1)
	w := newGuardedWorld(t, k.guard)
	w.revision = &policy.Revision{Version: 8, Set: tieredPolicies()}
	for name, c := range map[string]struct {
		grant   string
		allowed []string
	}{
		"none":    {"policy=plan ops=override", []string{""}},
		"gold":    {"policy=plan tier=gold ops=override", []string{"", "gold"}},
		"limited": {"tier=* ops=override", []string{"", "gold", "no-such-tier"}},
		"named":   {"tier=*,internal ops=override", []string{"", "gold", "no-such-tier", "internal"}},
		"root":    {"ops=admin", []string{"", "gold", "no-such-tier", "internal"}},
	} {
		k.add(t, name, c.grant)
		asks := stintv1connect.NewPolicyServiceClient(withToken(k.text[name]), w.url)
		for _, tier := range []string{"", "gold", "internal", "no-such-tier"} {
			before := len(w.decider.requests())
			m := &stintv1.PutOverrideRequest{Policy: "plan", Key: "k", Tier: tier}
			if tier == "" {
				m.Limits = map[string]*stintv1.TierLimit{"burst": {Quota: &quota}}
			}
			_, err := asks.PutOverride(t.Context(), connect.NewRequest(m))
			want := slices.Contains(c.allowed, tier)
			if decided := len(w.decider.requests()) - before; (err == nil) != want || (decided == 1) != want ||
				!want && connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%q gives a key the tier %q: %d decided, %v", c.grant, tier, decided, err)
			}
		}
	}
}

// On a network that the operator trusts, without tokens, no caller lifts a limit by a tier: neither for a request nor
// for good.
func TestWithoutATokenNoOverrideLiftsALimitOffLoopback(t *testing.T) {
	guard := auth.NewGuard(time.Now)
	guard.Learn(&auth.Set{Known: true})
	guest, refusal := guard.Caller(auth.Proof{Port: auth.Trusted})
	if refusal != nil {
		t.Fatal(refusal)
	}
	set := tieredPolicies()
	for tier, want := range map[string]bool{"gold": true, "internal": false} {
		for _, op := range []auth.Op{auth.Check, auth.Read, auth.Override} {
			if err := granted(guest, set, op, "",
				[]*stintv1.Entry{{Policy: "plan", Key: "k", Tier: tier}}); (err == nil) != want {
				t.Errorf("%v with the tier %q: %v", op, tier, err)
			}
		}
	}
}
