package verify

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"
)

// windowLeast is the shortest first-hit window that cannot end during a run and its settling.
const windowLeast = time.Hour

type policyBody struct {
	Name      string
	DenyCache string // a duration
	Limits    []ruleBody
}

type ruleBody struct {
	Name        string
	Quota       number
	Shadow      bool
	FixedWindow *struct{ Period, Anchor string }
	Lifetime    *struct{}
}

// FindTarget looks up a policy that can be verified: it has one limit that counts, and its quota does not come back
// during a run. The error describes a suitable policy.
func FindTarget(ctx context.Context, address string, secure *tls.Config, token, policy string) (Target, error) {
	c := newCaller(Plan{Addresses: []string{urlOf(address)}, TLS: secure, Token: token})
	defer c.close()
	var reply struct{ Policies []policyBody }
	a := c.call(ctx, 0, "PolicyService/List", struct{}{}, &reply)
	if a.broke != nil {
		return Target{}, fmt.Errorf("reading the policies of %s: %w", address, a.broke)
	}
	if a.fate != admitted {
		return Target{}, fmt.Errorf("reading the policies of %s: %s: %s", address, a.code, a.message)
	}
	at := slices.IndexFunc(reply.Policies, func(p policyBody) bool { return p.Name == policy })
	if at < 0 {
		var names []string
		for _, p := range reply.Policies {
			names = append(names, p.Name)
		}
		return Target{}, fmt.Errorf("%s has no policy %q; it has %s. %s", address, policy, strings.Join(names, ", "), advice)
	}
	limits := reply.Policies[at].Limits
	if len(limits) != 1 {
		return Target{}, fmt.Errorf("policy %s has %d limits: what is admitted can be foretold with one only. %s", policy,
			len(limits), advice)
	}
	if why := limits[0].unfit(); why != "" {
		return Target{}, fmt.Errorf("limit %s of policy %s %s. %s", limits[0].Name, policy, why, advice)
	}
	t := Target{Policy: policy, Quota: uint64(limits[0].Quota)}
	if text := reply.Policies[at].DenyCache; text != "" {
		stale, err := time.ParseDuration(text)
		if err != nil {
			return Target{}, fmt.Errorf("deny_cache of policy %s: %w", policy, err)
		}
		t.Stale = stale
	}
	return t, nil
}

// advice shows a policy that can be verified.
const advice = "Add one to the policies file, and name it with --policy:\n\n" +
	"    verify: {limits: [{name: total, quota: 1000, fixed_window: {period: 24h, anchor: first_hit}}]}\n"

// unfit returns the reason why a limit cannot be verified, or "".
func (l ruleBody) unfit() string {
	switch {
	case l.Shadow:
		return "never denies: it is shadowed"
	case l.Quota == 0 || l.Quota > quotaMax:
		return fmt.Sprintf("has a quota of %d, not one within 1..%d", l.Quota, quotaMax)
	case l.Lifetime != nil:
		return ""
	case l.FixedWindow == nil || l.FixedWindow.Anchor != "ANCHOR_FIRST_HIT":
		return "gives back what was spent while the run lasts, or may do so"
	}
	if period, err := time.ParseDuration(l.FixedWindow.Period); err != nil || period < windowLeast {
		return fmt.Sprintf("has a window of %s, which is less than an hour", l.FixedWindow.Period)
	}
	return ""
}
