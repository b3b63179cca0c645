package policy

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// Tier replaces numbers of a policy's limits for some of its keys. It has Limits or is Unlimited, not both.
type Tier struct {
	Limits    map[string]TierLimit // by limit name
	Unlimited bool                 // every limit of the policy is counted, but none denies
}

// TierLimit is the changes that a tier makes to one limit; a nil field keeps the policy's number. Refill and Rate are
// limit.Limit's Count under the names that two algorithms have for it, so at most one of them fits a limit.
type TierLimit struct {
	Quota  *uint64 `policy:"quota" about:"Units that fit."`
	Refill *uint64 `policy:"refill" about:"Tokens of a token bucket that come back in one per."`
	Rate   *uint64 `policy:"rate" about:"Units that GCRA admits in one per."`
}

// resolve returns the limits with the tier's numbers: the same slice if the tier changes none.
func (t Tier) resolve(limits []Limit) []Limit {
	if !t.Unlimited && len(t.Limits) == 0 {
		return limits
	}
	resolved := make([]Limit, len(limits))
	for i, l := range limits {
		resolved[i] = l
		if t.Unlimited {
			resolved[i].Unlimited = true
		} else {
			resolved[i].Limit = t.Limits[l.Name].resolve(l.Limit)
		}
	}
	return resolved
}

// resolve applies a tier's numbers. A bucket that starts full in the policy starts full in every tier, and one without
// capacity starts empty.
func (t TierLimit) resolve(l limit.Limit) limit.Limit {
	startsFull := l.Algorithm == limit.TokenBucket && l.Initial == l.Quota
	if t.Quota != nil {
		l.Quota = *t.Quota
	}
	if count := cmp.Or(t.Rate, t.Refill); count != nil {
		l.Count = *count
	}
	if startsFull || l.Quota == 0 {
		l.Initial = l.Quota
	}
	return l
}

// with returns t with the numbers of changed on top.
func (t TierLimit) with(changed TierLimit) TierLimit {
	return TierLimit{cmp.Or(changed.Quota, t.Quota), cmp.Or(changed.Refill, t.Refill), cmp.Or(changed.Rate, t.Rate)}
}

// fits reports whether the algorithm has all numbers that are set.
func (t TierLimit) fits(a limit.Algorithm) bool {
	return (t.Quota == nil || a != limit.Unlimited) && (t.Refill == nil || a == limit.TokenBucket) &&
		(t.Rate == nil || a == limit.GCRA)
}

// tiersKind is tiers by name. A tier is unlimited, or has changes by the names of limits.
func tiersKind() kind {
	return kindFor(func(d *decoder, v value, tiers *map[string]Tier) {
		*tiers = map[string]Tier{}
		for _, e := range d.entries(v) {
			(*tiers)[e.name] = readTier(d, e)
		}
	}, func(*map[string]Tier) *yaml.Node { return mappingNode() }, // policyOf puts tiersNode here
		jsonSchema{"type": "object", "maxProperties": tiersMax, "propertyNames": texts["name"].schema,
			"additionalProperties": jsonSchema{"type": "object",
				"properties":    jsonSchema{"unlimited": flagKind.schema},
				"propertyNames": texts["name"].schema, "additionalProperties": tierLimitKind.schema}})
}

func readTier(d *decoder, v value) Tier {
	t := Tier{Limits: map[string]TierLimit{}}
	for _, e := range d.entries(v) {
		if e.name == "unlimited" {
			flagKind.readInto(d, e, &t.Unlimited)
			continue
		}
		var changed TierLimit
		tierLimitKind.readInto(d, e, &changed)
		t.Limits[e.name] = changed
	}
	return t
}

// policyOf makes the tiers of a policy list limits in the order of the policy.
func policyOf(k kind) kind {
	plain := k.node
	k.node = func(of reflect.Value, told bool) *yaml.Node {
		n := plain(of, told)
		for i := 1; i < len(n.Content); i += 2 {
			if n.Content[i-1].Value == "tiers" {
				n.Content[i] = tiersNode(of.Addr().Interface().(*Policy))
			}
		}
		return n
	}
	return k
}

func tiersNode(p *Policy) *yaml.Node {
	tiers := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(p.Tiers)) {
		t := p.Tiers[name]
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		if t.Unlimited {
			n.Content = append(n.Content, scalar("unlimited", false), flagKind.nodeOf(&t.Unlimited))
		}
		for i := range p.Limits {
			if changed, ok := t.Limits[p.Limits[i].Name]; ok {
				n.Content = append(n.Content, texts["name"].node(p.Limits[i].Name), tierLimitKind.nodeOf(&changed))
			}
		}
		tiers.Content = append(tiers.Content, texts["name"].node(name), n)
	}
	return tiers
}

func (c *checker) tiers() {
	p := c.policy
	for _, name := range slices.Sorted(maps.Keys(p.Tiers)) {
		field := "tiers." + shown(name)
		if problem := NameProblem(name); problem != "" {
			c.fail(field, "%s", problem)
		}
		tier := p.Tiers[name]
		if tier.Unlimited && len(tier.Limits) > 0 {
			c.fail(field, "is unlimited: it cannot change limits as well")
			continue
		}
		for _, limitName := range slices.Sorted(maps.Keys(tier.Limits)) {
			c.tierLimit(field+"."+shown(limitName), limitName, tier.Limits[limitName])
		}
	}
	if _, known := p.Tiers[p.DefaultTier]; p.DefaultTier != "" && !known {
		c.fail("default_tier", "there is no tier %s%s", shown(p.DefaultTier), didYouMean(p.NearestTier(p.DefaultTier)))
	}
}

// tierLimit checks the changes to the limit called name, and the numbers that result. If the policy's own numbers are
// invalid, limits reports that, and the result is not checked.
func (c *checker) tierLimit(field, name string, changed TierLimit) {
	i := c.policy.indexOf(name)
	if i < 0 {
		var names []string
		for _, l := range c.policy.Limits {
			names = append(names, l.Name)
		}
		c.fail(field, "the policy has no limit %s%s", shown(name), didYouMean(nearest(name, names)))
		return
	}
	l := c.policy.Limits[i].Limit
	fits := c.algorithmHas(field+".quota", changed.Quota, l.Algorithm != limit.Unlimited)
	fits = c.algorithmHas(field+".refill", changed.Refill, l.Algorithm == limit.TokenBucket) && fits
	fits = c.algorithmHas(field+".rate", changed.Rate, l.Algorithm == limit.GCRA) && fits
	if fits && l.Validate() == nil {
		c.numbers(field, changed.resolve(l), tierField)
	}
}

func (c *checker) algorithmHas(field string, number *uint64, has bool) bool {
	if number != nil && !has {
		c.fail(field, "the limit's algorithm has no such number")
		return false
	}
	return true
}

func tierField(_ limit.Algorithm, name string) string {
	if name == "quota" || name == "refill" || name == "rate" {
		return "." + name
	}
	return "" // the tier's numbers contradict the numbers that it did not change
}
