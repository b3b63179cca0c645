package api

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// PoliciesOf makes a set from messages, with the checks of a policies file. The error is a *shard.Error that names
// every wrong field, as in "policies.login.limits[0].quota".
func PoliciesOf(messages []*stintv1.Policy) (*policy.Set, error) {
	nodes := make([]policy.Named, len(messages))
	for i, m := range messages {
		nodes[i] = namedPolicy(m)
	}
	set, err := policy.FromNodes(nodes)
	return set, policyError(err)
}

// withRules returns the set with the rules of a message, checked like those of a policies file. The error is a
// *shard.Error that names every wrong field and its line.
func withRules(set *policy.Set, rules string) (*policy.Set, error) {
	set, err := policy.ParseRules("rules", []byte(rules), set)
	if wrong, ok := errors.AsType[*policy.ParseError](err); ok {
		return nil, shard.Invalidf("rules", "%s", wrong)
	}
	return set, err
}

// PolicyFrom reads one policy that a server has sent. The server has checked it, so the only error is a message that
// cannot be read. The policy is in no Set, so it cannot be resolved.
func PolicyFrom(m *stintv1.Policy) (*policy.Policy, error) {
	p, err := policy.FromNode(namedPolicy(m))
	return p, policyError(err)
}

// limitsFrom reads the limits in a request, with the checks of a policy's limits. path is the path of the message that
// contains them, such as "entries[0]". The error is a *shard.Error that names the field.
func limitsFrom(path string, messages []*stintv1.Limit) ([]policy.Limit, error) {
	var room [inlineKeyBytesMax]byte
	key := inlineLimits.keyOf(room[:0], messages)
	if known := inlineLimits.get(key); known != nil {
		return known, nil
	}
	nodes := make([]*yaml.Node, len(messages))
	for i, m := range messages {
		nodes[i] = treeOf(m.ProtoReflect())
	}
	limits, problems := policy.LimitsFromNodes(nodes, zoneOf)
	if len(problems) > 0 {
		return nil, shard.Invalidf(path+"."+problems[0].Path, "%s", problems[0].Message)
	}
	if key != nil {
		inlineLimits.put(key, limits)
	}
	return limits, nil
}

// problemsToldMax keeps an error within the size of a header, as gRPC sends it in one.
const problemsToldMax = 20

// policyError names every problem of policies with its field; it returns nil if there are none.
func policyError(err error) error {
	wrong, ok := errors.AsType[*policy.ParseError](err)
	if !ok {
		return err
	}
	var told []string
	for _, p := range wrong.Problems[:min(len(wrong.Problems), problemsToldMax)] {
		path := "policies"
		if p.Path != "" {
			path += "." + p.Path
		}
		told = append(told, strings.Replace(path, ".[", "[", 1)+": "+p.Message)
	}
	if more := len(wrong.Problems) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return &shard.Error{Code: shard.Invalid, Message: strings.Join(told, "; ")}
}

// namedPolicy returns a policy as in a file.
func namedPolicy(m *stintv1.Policy) policy.Named {
	n := treeOf(m.ProtoReflect())
	if m.GetName() != "" {
		n.Content = n.Content[2:] // the name, which is the first field
	}
	return policy.Named{Name: m.GetName(), Node: n}
}

// treeOf returns a message as in a file: its fields have the same names there. Absent fields stay absent.
func treeOf(m protoreflect.Message) *yaml.Node {
	if of, is := m.Interface().(*durationpb.Duration); is {
		return leafNode(durationText(of), false)
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		v := fieldTree(field, m.Get(field))
		switch m.Interface().(type) {
		case *stintv1.Threshold:
			if field.Name() == "percent" {
				v.Value += "%"
			}
			return v
		case *stintv1.Lease:
			if field.Name() == "share" {
				v.Value += "%"
			}
		case *stintv1.Tier:
			if field.Name() == "limits" { // they have no field of their own in a file
				n.Content = append(n.Content, v.Content...)
				continue
			}
		}
		n.Content = append(n.Content, leafNode(string(field.Name()), false), v)
	}
	return n
}

func fieldTree(field protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch {
	case field.IsList():
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.List().Len() {
			n.Content = append(n.Content, valueTree(field, v.List().Get(i)))
		}
		return n
	case field.IsMap():
		n := &yaml.Node{Kind: yaml.MappingNode}
		var names []string
		v.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			names = append(names, key.String())
			return true
		})
		slices.Sort(names)
		for _, name := range names {
			of := v.Map().Get(protoreflect.ValueOfString(name).MapKey())
			n.Content = append(n.Content, leafNode(name, true), valueTree(field.MapValue(), of))
		}
		return n
	}
	return valueTree(field, v)
}

// valueTree returns a value as in a file. The number of an unknown enum value stands for itself, and is refused later.
func valueTree(field protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return treeOf(v.Message())
	case protoreflect.EnumKind:
		value := field.Enum().Values().ByNumber(v.Enum())
		if value == nil {
			return leafNode(strconv.Itoa(int(v.Enum())), false)
		}
		return leafNode(strings.ToLower(strings.TrimPrefix(string(value.Name()), wordPrefix(field.Enum()))), false)
	case protoreflect.BoolKind:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: v.String()}
	}
	return leafNode(v.String(), field.Kind() == protoreflect.StringKind)
}

// leafNode returns a scalar. A quoted one is text even if it looks like a number or a word of YAML.
func leafNode(text string, quoted bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if quoted {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// durationText formats a duration as in a file, or so that it is refused.
func durationText(d *durationpb.Duration) string {
	switch length := d.AsDuration(); {
	case d.CheckValid() != nil:
		return fmt.Sprintf("%ds and %dns", d.GetSeconds(), d.GetNanos())
	case length == math.MaxInt64 || length == math.MinInt64:
		return fmt.Sprintf("%ds", d.GetSeconds())
	default:
		return length.String()
	}
}
