package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// overrideProblem refuses an override that is invalid for its policy, or that has already expired.
func (ch *charge) overrideProblem(r *Request, at *Stamp) *Error {
	o, entry := r.Adjustment.Override, &r.Entries[0]
	switch {
	case o == nil:
		return Invalidf("tier", "is missing, and so are limits: there is no override")
	case entry.Limits != nil:
		return Invalidf("policy", "must be that of a policy: inline limits have no override")
	case o.Tier == "" && len(o.Limits) == 0:
		return Invalidf("tier", "is missing, and so are limits: delete the override to have the policy's own")
	case o.Expires != 0 && o.Expires <= at.Now:
		return Invalidf("expires_at", "is %s, and now is %s: it must lie ahead",
			instantWords(o.Expires), instantWords(at.Now))
	}

	if field, problem := ch.policy.OverrideProblem(o); problem != "" {
		return Invalidf(field, "%s", problem)
	}
	return nil
}

// putOverride gives the key an override. It is copied, since the caller's may change.
func (x *counterExtras) putOverride(o *policy.Override) {
	own := *o
	own.Limits = maps.Clone(o.Limits)
	x.override = &own
}

// changeOverride must be called before the key gets another override, or none: its limits are carried over now. Used
// units stay used, even if a revision would restart the count or forgive the excess over the quota.
func (ch *charge) changeOverride(r *Request, next *policy.Override, now limit.Time) {
	ch.counter.carry(ch.policy.OfTier(r.Entries[0].Tier, next), now) //mutant:override-begins-when-noticed
}

// override returns the key's override, or nil.
func (c *counter) override() *policy.Override {
	if c.extras == nil {
		return nil
	}
	return c.extras.override
}

// inForce reports whether there is an override that has not expired.
func inForce(o *policy.Override, now limit.Time) bool {
	return o != nil && (o.Expires == 0 || o.Expires > now) //mutant:expired-override-used
}

// overridden reports whether the key has an override in force.
func (x *counterExtras) overridden(now limit.Time) bool {
	return x != nil && inForce(x.override, now)
}

// overrideEnded reports whether there is an override that has ended and was not removed yet.
func (x *counterExtras) overrideEnded(now limit.Time) bool {
	return x != nil && x.override != nil && !inForce(x.override, now)
}

// overrideWords describes the key's override.
func (x *counterExtras) overrideWords(now limit.Time) string {
	if !x.overridden(now) {
		return "none"
	}
	o := x.override
	var words []string
	if o.Tier != "" {
		words = append(words, "tier "+o.Tier)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		words = append(words, tierLimitWords(name, o.Limits[name])...)
	}
	if o.Expires != 0 {
		words = append(words, "until "+instantWords(o.Expires))
	}
	return strings.Join(words, ", ")
}

func tierLimitWords(name string, t policy.TierLimit) (words []string) {
	for _, number := range []struct {
		field string
		value *uint64
	}{{"quota", t.Quota}, {"refill", t.Refill}, {"rate", t.Rate}} {
		if number.value != nil {
			words = append(words, fmt.Sprintf("%s.%s %d", name, number.field, *number.value))
		}
	}
	return words
}

// codeOverride is an override: tier, expires, number of limits, then for each limit, in the order of names, which
// numbers it has and those numbers.
func codeOverride(c *codec.Codec, o *policy.Override) {
	if c.Reading() {
		c.Own()
	}
	c.Text(&o.Tier)
	codeTime(c, &o.Expires)
	codeTierLimits(c, &o.Limits, c.Left()/2)
}

// codeTierLimits are the numbers that an override changes, of at most most limits.
func codeTierLimits(c *codec.Codec, limits *map[string]policy.TierLimit, most int) {
	names := slices.Sorted(maps.Keys(*limits))
	if n := c.CountTo(len(names), most); c.Reading() && n > 0 {
		names, *limits = make([]string, n), make(map[string]policy.TierLimit, n)
	}
	for i := range names {
		t := (*limits)[names[i]]
		quota, refill, rate := t.Quota != nil, t.Refill != nil, t.Rate != nil
		c.Text(&names[i])
		c.Flags(&quota, &refill, &rate)
		number := func(n *uint64) { c.Uint64(n) }
		codec.Optional(c, quota, &t.Quota, number)
		codec.Optional(c, refill, &t.Refill, number)
		codec.Optional(c, rate, &t.Rate, number)
		if !c.Reading() {
			continue
		}
		if (*limits)[names[i]] = t; i > 0 && names[i] <= names[i-1] {
			c.Fail()
		}
	}
}

func (c *MessageCodec) override(o *policy.Override) {
	c.Text(&o.Tier)
	codec.Int(&c.Codec, &o.Expires)
	codeTierLimits(&c.Codec, &o.Limits, MaxLimits)
}
