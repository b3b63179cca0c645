package policy

import (
	"fmt"

	"github.com/stint-io/stint/limit"
)

// LeaseForMax bounds a Lease's For: 10 s, as its tag says. A holder that dies keeps its units from others for that
// long.
const LeaseForMax limit.Span = 10 * 1_000_000

// leasesInWindow is how many leases, one after the other, a window must have room for. A lease ends before its window,
// so the last one of a window is cut short, and what a dead holder has not spent is lost for the window.
const leasesInWindow = 10

// Lease lets a holder spend units of a key in memory. The owner of the key grants them once, as a hold of the holder
// with OnExpireCommit, and from then on they count as used. No request is admitted above the limit; but units that a
// holder has not spent are not available to others until they come back.
type Lease struct {
	Units uint64 `policy:"units,required" min:"1" max:"1099511627776" about:"Most units of one lease."`
	// For is how long a lease lives, at most LeaseForMax. It is less where a window ends.
	For limit.Span `policy:"for,required" step:"1s" max:"10s" about:"Life of a lease."`
	// Share is the part of what a key has left that all of its leases may hold together.
	Share Percent `policy:"share,told" usual:"50%" about:"Most of what a key has left that its leases hold."`
}

// lease refuses leases with what needs to hear of each request, or would lose the units of a dead holder for ever.
func (c *checker) lease() {
	p := c.policy
	if p.Lease == nil {
		return
	}
	c.alone("lease",
		rival{p.Meter != nil, "meter", "a bill must not have what a holder that died has not spent"},
		rival{p.Lockout != nil, "lockout", "a holder does not know of a block at once"},
		rival{p.CountDenied, "count_denied", "a holder does not count denials"},
		rival{p.Parent != "", "parent", "a holder counts on one key"},
		rival{p.DenyCache != 0, "deny_cache", "a denial is never leased"},
		rival{p.Security, "security", "a policy that guards an account decides each request where it is counted"})
	for i := range p.Limits {
		c.leasedLimit(fmt.Sprintf("limits[%d]", i), &p.Limits[i])
	}
}

func (c *checker) leasedLimit(field string, l *Limit) {
	least := leasesInWindow * c.policy.Lease.For
	switch {
	case l.OnExceeded == ExceededChallenge:
		c.fail(field+".on_exceeded", "cannot be challenge with lease: a holder asks nobody for a proof")
	case l.Algorithm == limit.Concurrency || l.Algorithm == limit.Lifetime:
		c.fail(field+"."+algorithmField(l.Algorithm), "cannot be with lease: what a holder that died has not spent "+
			"would never come back")
	case l.Algorithm == 0 || l.Algorithm == limit.Unlimited || l.Algorithm == limit.TokenBucket ||
		l.Algorithm == limit.GCRA:
	case window(l.Limit) < least:
		c.fail(field+"."+algorithmField(l.Algorithm), "is a window of %v: "+
			"with lease it must be at least %d times as long as lease.for, %v",
			duration(window(l.Limit)), leasesInWindow, duration(least))
	}
}

// childProblems refuses a lease of a policy that is decided together with others, as their parent.
func childProblems(name string, policies []*Policy) (problems []Problem) {
	for _, p := range policies {
		if p.Parent == name {
			problems = append(problems, Problem{Path: shown(name) + ".lease",
				Message: "cannot be with a policy of which this one is the parent: " + shown(p.Name)})
		}
	}
	return problems
}
