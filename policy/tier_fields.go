package policy

import (
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v4"
)

// tiersKind is tiers by name. A tier is unlimited, or has changes by the names of limits.
var tiersKind = kind{
	read: func(d *decoder, v value, into reflect.Value) {
		tiers := map[string]Tier{}
		for _, e := range d.entries(v) {
			tiers[e.name] = readTier(d, e)
		}
		into.Set(reflect.ValueOf(tiers))
	},
	node: func(reflect.Value, bool) *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }, // tiersNode
	schema: func() jsonSchema {
		return jsonSchema{"type": "object", "maxProperties": tiersMax, "propertyNames": texts["name"].schema,
			"additionalProperties": jsonSchema{"type": "object",
				"properties":    jsonSchema{"unlimited": flagKind.schema()},
				"propertyNames": texts["name"].schema, "additionalProperties": tierLimitKind.schema()}}
	},
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
