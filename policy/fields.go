package policy

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// file reads a policies file.
func (d *decoder) file(root *yaml.Node) ([]*Policy, Rules) {
	fields := d.fields(d.top(root), append([]string{"policies"}, sections...)...)
	listed, ok := fields["policies"]
	if !ok {
		if root.Kind == yaml.MappingNode {
			d.fail("policies", "is missing")
		}
		return nil, Rules{}
	}
	if listed.node.Kind == yaml.MappingNode {
		listed.path = "" // paths begin with the name of the policy
	}
	var policies []*Policy
	for _, v := range d.entries(listed) {
		policies = append(policies, d.policy(v))
	}
	return policies, d.rules(fields)
}

func (d *decoder) policy(v value) *Policy {
	p := &Policy{Name: v.name, Retention: DefaultRetention, OnExpire: OnExpireCancel}
	f := d.fields(v, "limits", "tiers", "default_tier", "headers", "reason", "security", "shadow",
		"idempotency_retention", "on_expire", "on_change", "count_denied", "deny_cache", "lockout",
		"parent", "unknown_key", "max_keys", "meter", "notify")
	d.require(v, f, "limits")
	if limits, ok := f["limits"]; ok {
		for _, item := range d.items(limits) {
			p.Limits = append(p.Limits, d.limit(item))
		}
	}
	if tiers, ok := f["tiers"]; ok {
		p.Tiers = d.tiers(tiers)
	}
	if headers, ok := f["headers"]; ok {
		for _, item := range d.items(headers) {
			p.Headers = append(p.Headers, d.style(item))
		}
	}
	d.text(f["default_tier"], &p.DefaultTier)
	d.text(f["reason"], &p.Reason)
	d.flag(f["security"], &p.Security)
	d.flag(f["shadow"], &p.Shadow)
	d.span(f["idempotency_retention"], &p.Retention)
	word(d, f["on_expire"], onExpireWords, &p.OnExpire)
	word(d, f["on_change"], onChangeWords, &p.OnChange)
	d.flag(f["count_denied"], &p.CountDenied)
	d.span(f["deny_cache"], &p.DenyCache)
	d.text(f["parent"], &p.Parent)
	word(d, f["unknown_key"], unknownKeyWords, &p.UnknownKey)
	if most, ok := f["max_keys"]; ok {
		if d.number(most, &p.MaxKeys) && p.MaxKeys == 0 {
			d.fail(most.path, "must be at least 1: leave it out to count as many keys as there is memory for")
		}
	}
	if lockout, ok := f["lockout"]; ok {
		p.Lockout = d.lockout(lockout)
	}
	if meter, ok := f["meter"]; ok {
		p.Meter = d.meter(meter)
	}
	if sinks, ok := f["notify"]; ok {
		p.Notify = notify(d, sinks)
	}
	return p
}

func (d *decoder) limit(v value) Limit {
	var l Limit
	before := len(d.problems)
	f := d.fields(v, append([]string{"name", "quota", "unit", "shadow", "reason", "on_recovery", "on_exceeded", "thresholds"}, algorithmNames...)...)
	understood := len(d.problems) == before
	d.require(v, f, "name")
	d.text(f["name"], &l.Name)
	d.text(f["unit"], &l.Unit)
	d.flag(f["shadow"], &l.Shadow)
	d.text(f["reason"], &l.Reason)
	word(d, f["on_recovery"], onRecoveryWords, &l.OnRecovery)
	word(d, f["on_exceeded"], onExceededWords, &l.OnExceeded)
	d.number(f["quota"], &l.Quota)
	if thresholds, ok := f["thresholds"]; ok {
		l.Thresholds = d.thresholds(thresholds)
	}
	var given []string
	for _, name := range algorithmNames {
		if algorithm, ok := f[name]; ok {
			given = append(given, name)
			d.algorithm(algorithm, &l.Limit)
		}
	}
	if _, unlimited := f["unlimited"]; !unlimited {
		d.require(v, f, "quota")
	}
	if len(given) == 0 && understood {
		d.fail(v.path, "needs an algorithm, one of %s", strings.Join(algorithmNames, ", "))
	}
	if len(given) > 1 {
		d.fail(v.path, "has more than one algorithm: %s", strings.Join(given, ", "))
	}
	return l
}

var algorithmNames = []string{
	"fixed_window", "sliding_window", "sliding_log", "token_bucket", "gcra", "calendar", "concurrency", "lifetime",
	"unlimited",
}

func (d *decoder) algorithm(v value, l *limit.Limit) {
	switch v.name {
	case "fixed_window":
		d.fixedWindow(v, l)
	case "sliding_window":
		d.slidingWindow(v, l)
	case "sliding_log":
		l.Algorithm = limit.SlidingLog
		f := d.fields(v, "period")
		d.require(v, f, "period")
		d.span(f["period"], &l.Period)
	case "token_bucket":
		d.tokenBucket(v, l)
	case "gcra":
		l.Algorithm = limit.GCRA
		f := d.fields(v, "rate", "per")
		d.require(v, f, "rate", "per")
		d.number(f["rate"], &l.Count)
		d.span(f["per"], &l.Period)
	case "calendar":
		l.Algorithm, l.Cycle = limit.Calendar, d.calendar(v)
	case "concurrency":
		l.Algorithm = limit.Concurrency
		d.empty(v)
	case "lifetime":
		l.Algorithm = limit.Lifetime
		d.empty(v)
	case "unlimited":
		l.Algorithm = limit.Unlimited
		d.empty(v)
	}
}

func (d *decoder) fixedWindow(v value, l *limit.Limit) {
	f := d.fields(v, "period", "anchor")
	d.require(v, f, "period")
	d.span(f["period"], &l.Period)
	l.Algorithm = limit.FixedWindow
	word(d, f["anchor"], anchorWords, &l.Algorithm)
}

func (d *decoder) slidingWindow(v value, l *limit.Limit) {
	f := d.fields(v, "period", "bucket")
	d.require(v, f, "period")
	d.span(f["period"], &l.Period)
	d.span(f["bucket"], &l.Bucket)
	l.Algorithm = limit.SlidingWindow
	if _, ok := f["bucket"]; ok {
		l.Algorithm = limit.SlidingBuckets
	}
}

func (d *decoder) tokenBucket(v value, l *limit.Limit) {
	l.Algorithm = limit.TokenBucket
	f := d.fields(v, "refill", "per", "initial")
	d.require(v, f, "refill", "per")
	d.number(f["refill"], &l.Count)
	d.span(f["per"], &l.Period)
	l.Initial = l.Quota
	d.number(f["initial"], &l.Initial)
}

func (d *decoder) empty(v value) {
	for _, e := range d.entries(v) {
		d.fail(e.path, "is unknown here: %s has no fields", v.name)
	}
}

func (d *decoder) tiers(v value) map[string]Tier {
	tiers := map[string]Tier{}
	for _, e := range d.entries(v) {
		tiers[e.name] = d.tier(e)
	}
	return tiers
}

func (d *decoder) tier(v value) Tier {
	t := Tier{Limits: map[string]TierLimit{}}
	for _, e := range d.entries(v) {
		if e.name == "unlimited" {
			d.flag(e, &t.Unlimited)
			continue
		}
		f := d.fields(e, "quota", "refill", "rate")
		t.Limits[e.name] = TierLimit{d.optionalNumber(f["quota"]), d.optionalNumber(f["refill"]), d.optionalNumber(f["rate"])}
	}
	return t
}
