package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// inlinePolicy stands for the policy of entries with inline limits: it has only the defaults. It also stands for a
// policy that no longer exists.
var inlinePolicy = &policy.Policy{Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel}

// InlinePolicy stands for all inline limits of a namespace in Shares, regardless of their labels, which clients choose.
const InlinePolicy = "~"

// policyAtKey returns the policy of a counter's record, or inlinePolicy if there is none now.
func policyAtKey(policies *policy.Set, key string) *policy.Policy {
	if p, known := policies.Lookup(policyOfKey(key)); known {
		return p
	}
	return inlinePolicy
}

// maxInline bounds the inline limits of one key, and thereby its record. Each request may use new names, and a limit is
// kept until it is at rest.
const maxInline = 64

// hasRoomFor reports whether the counter may keep these limits as well.
func (c *counter) hasRoomFor(limits []policy.Limit, now limit.Time) bool {
	if len(c.limits)+len(limits) <= maxInline {
		return true
	}
	count := 0
	for i := range c.limits {
		if l := &c.limits[i]; !l.atRest(now) || l.keepsSince(now) {
			count++
		}
	}
	for i := range limits {
		if c.limits.find(i, limits[i].Name) < 0 {
			count++
		}
	}
	return count <= maxInline
}
