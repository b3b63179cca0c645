package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// Target is a policy with one limit that gives back nothing of its quota during a run.
type Target struct {
	Policy string
	Quota  uint64
	// Stale is how long nodes may repeat a denial without asking again: the policy's deny_cache; 0 means never.
	Stale time.Duration
}

// windowLeast is the shortest first-hit window that cannot end during a run and its settling.
const windowLeast = time.Hour

// FindTarget looks up a policy that can be verified: it has one limit that counts, its quota does not come back during
// a run, and it has a lease if that is to be verified. The error describes a suitable policy.
func FindTarget(
	ctx context.Context, address string, secure *tls.Config, token, policy string, leased bool,
) (Target, error) {
	c := newCaller(Plan{Addresses: []string{urlOf(address)}, TLS: secure, Token: token})
	defer c.close()
	service := stintv1connect.NewPolicyServiceClient(c.http, urlOf(address), connect.WithProtoJSON())
	reply, err := service.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	if err != nil {
		return Target{}, fmt.Errorf("reading the policies of %s: %w", address, cmp.Or(cause(err), err))
	}
	policies, advice := reply.Msg.Policies, advise(leased)
	at := slices.IndexFunc(policies, func(p *stintv1.Policy) bool { return p.Name == policy })
	if at < 0 {
		var names []string
		for _, p := range policies {
			names = append(names, p.Name)
		}
		return Target{}, fmt.Errorf("%s has no policy %q; it has %s. %s",
			address, policy, strings.Join(names, ", "), advice)
	}
	limits := policies[at].Limits
	if len(limits) != 1 {
		return Target{}, fmt.Errorf("policy %s has %d limits: what is admitted can be foretold with one only. %s",
			policy, len(limits), advice)
	}
	switch has := policies[at].Lease != nil; {
	case has && !leased:
		return Target{}, fmt.Errorf("policy %s has a lease: take --lease as well, or another policy. %s", policy, advice)
	case leased && !has:
		return Target{}, fmt.Errorf("policy %s has no lease. %s", policy, advice)
	}
	if why := unfit(limits[0]); why != "" {
		return Target{}, fmt.Errorf("limit %s of policy %s %s. %s", limits[0].Name, policy, why, advice)
	}
	return Target{Policy: policy, Quota: limits[0].GetQuota(), Stale: policies[at].DenyCache.AsDuration()}, nil
}

// advise shows a policy that can be verified.
func advise(leased bool) string {
	lease := ""
	if leased {
		lease = "lease: {units: 100, for: 2s}, "
	}
	return "Add one to the policies file, and name it with --policy:\n\n" +
		"    verify: {" + lease + "limits: [{name: total, quota: 1000, fixed_window: {period: 24h, " +
		"anchor: first_hit}}]}\n"
}

// unfit returns the reason why a limit cannot be verified, or "".
func unfit(l *stintv1.Limit) string {
	window := l.GetFixedWindow()
	switch {
	case l.Shadow:
		return "never denies: it is shadowed"
	case l.GetQuota() == 0 || l.GetQuota() > quotaMax:
		return fmt.Sprintf("has a quota of %d, not one within 1..%d", l.GetQuota(), quotaMax)
	case l.GetLifetime() != nil:
		return ""
	case window == nil || window.Anchor != stintv1.Anchor_ANCHOR_FIRST_HIT:
		return "gives back what was spent while the run lasts, or may do so"
	case window.Period.AsDuration() < windowLeast:
		return fmt.Sprintf("has a window of %v, which is less than an hour", window.Period.AsDuration())
	}
	return ""
}
