package api

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// PolicyMessages translates a set into messages, in alphabetical order.
func PolicyMessages(set *policy.Set) []*stintv1.Policy {
	var messages []*stintv1.Policy
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		messages = append(messages, policyOf(p))
	}
	return messages
}

// policyOf translates a policy: the fields of the messages have the names of the fields in a policies file.
func policyOf(p *policy.Policy) *stintv1.Policy {
	m := &stintv1.Policy{Name: p.Name}
	fillMessage(m.ProtoReflect(), p.Node())
	return m
}

// fillMessage sets the fields of a message to those of a mapping.
func fillMessage(m protoreflect.Message, n *yaml.Node) {
	switch of := m.Interface().(type) {
	case *durationpb.Duration:
		length, _ := policy.ParseDuration(n.Value) // as written by policy.SpanText
		of.Seconds, of.Nanos = int64(length/1e9), int32(length%1e9)
		return
	case *stintv1.Threshold:
		name := "units"
		if strings.HasSuffix(n.Value, "%") {
			name = "percent"
		}
		field := m.Descriptor().Fields().ByTextName(name)
		m.Set(field, nodeScalar(field, &yaml.Node{Value: strings.TrimSuffix(n.Value, "%")}))
		return
	case *stintv1.Tier:
		n = tierTree(n)
	}
	for i := 0; i < len(n.Content); i += 2 {
		field, v := m.Descriptor().Fields().ByTextName(n.Content[i].Value), n.Content[i+1]
		switch {
		case field.IsList():
			for _, item := range v.Content {
				list := m.Mutable(field).List()
				list.Append(nodeValue(field, item, list.NewElement))
			}
		case field.IsMap():
			entries := m.Mutable(field).Map()
			for j := 0; j < len(v.Content); j += 2 {
				key := protoreflect.ValueOfString(v.Content[j].Value).MapKey()
				entries.Set(key, nodeValue(field.MapValue(), v.Content[j+1], entries.NewValue))
			}
		default:
			m.Set(field, nodeValue(field, v, func() protoreflect.Value { return m.NewField(field) }))
		}
	}
}

// tierTree moves the limits of a tier, which have no field of their own in a file, into a field.
func tierTree(n *yaml.Node) *yaml.Node {
	limits := &yaml.Node{Kind: yaml.MappingNode}
	tier := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(n.Content); i += 2 {
		into := limits
		if n.Content[i].Value == "unlimited" {
			into = tier
		}
		into.Content = append(into.Content, n.Content[i:i+2]...)
	}
	tier.Content = append(tier.Content, &yaml.Node{Value: "limits"}, limits)
	return tier
}

// nodeValue makes the value of a field, in a new message if it is one.
func nodeValue(field protoreflect.FieldDescriptor, n *yaml.Node, fresh func() protoreflect.Value) protoreflect.Value {
	if field.Message() == nil {
		return nodeScalar(field, n)
	}
	v := fresh()
	fillMessage(v.Message(), n)
	return v
}

// nodeScalar makes the value of a field that is no message. The node is one of a valid policy, so it can be read.
func nodeScalar(field protoreflect.FieldDescriptor, n *yaml.Node) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n.Value == "true")
	case protoreflect.EnumKind:
		value := protoreflect.Name(wordPrefix(field.Enum()) + strings.ToUpper(n.Value))
		return protoreflect.ValueOfEnum(field.Enum().Values().ByName(value).Number())
	case protoreflect.StringKind:
		if n.Kind == yaml.MappingNode { // the header style x-quota with a limit
			return protoreflect.ValueOfString(n.Content[0].Value + ": " + n.Content[1].Value)
		}
		return protoreflect.ValueOfString(n.Value)
	}
	var number uint64
	fmt.Sscan(n.Value, &number)
	if field.Kind() == protoreflect.Uint32Kind {
		return protoreflect.ValueOfUint32(uint32(number))
	}
	return protoreflect.ValueOfUint64(number)
}

// wordPrefix is the prefix of a file's words in the names of an enum: ON_EXPIRE_.
func wordPrefix(e protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// tierLimitMessages translates the changes of an override.
func tierLimitMessages(limits map[string]policy.TierLimit) map[string]*stintv1.TierLimit {
	messages := make(map[string]*stintv1.TierLimit, len(limits))
	for name, l := range limits {
		messages[name] = &stintv1.TierLimit{Quota: l.Quota, Refill: l.Refill, Rate: l.Rate}
	}
	return messages
}
