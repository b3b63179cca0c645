package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Format writes a set as its one canonical YAML text: Parse reads it back to an equal set, and equal sets have equal
// bytes. Optional fields with their default value are left out, except for the numbers of a lockout, which only make
// sense together, and the identity of a gate. A nil set is an empty one. Format may be called concurrently.
func Format(s *Set) []byte {
	s = cmp.Or(s, emptySet)
	f := &file{Rules: s.rules}
	for _, name := range s.names {
		f.Policies = append(f.Policies, s.byName[name])
	}
	return appendLines(nil, fileKind.nodeOf(f), 0)
}

// FormatPolicy writes one policy as Format does, as if it were the only one in the file, and without the indentation.
// It may be called concurrently.
func FormatPolicy(p *Policy) []byte {
	return appendLines(nil, policiesKind.nodeOf(&[]*Policy{p}), 0)
}

// Row is a limit or another field of a policy, with its text as Format writes it.
type Row struct{ Name, Text string }

// Rows returns the limits of a policy, and then its other fields except its tiers. It may be called concurrently.
func (p *Policy) Rows() (rows []Row) {
	var others []Row
	fields := policyKind.nodeOf(p).Content
	for i := 0; i < len(fields); i += 2 {
		switch name := fields[i].Value; name {
		case "limits":
			for _, l := range fields[i+1].Content {
				rows = append(rows, Row{l.Content[1].Value, string(appendFlow(nil, mappingNode(l.Content[2:]...)))})
			}
		case "tiers", "default_tier":
		default:
			others = append(others, Row{name, string(appendFlow(nil, fields[i+1]))})
		}
	}
	return append(rows, others...)
}

// yamlWords are names that some version of YAML does not read as text.
var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// isPlain reports whether text can stand in YAML without quotes: it is a name, and not a number, a date or a truth
// value.
func isPlain(text string) bool {
	return NameProblem(text) == "" && text[0] >= 'a' && !slices.Contains(yamlWords, text)
}

// scalar returns a node of text.
func scalar(text string, inQuotes bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if inQuotes {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// mappingNode returns a mapping of names and values with each pair on a line of its own.
func mappingNode(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: content}
}

const indent = "  "

// appendLines writes the canonical lines of a list or mapping at a depth.
func appendLines(text []byte, n *yaml.Node, depth int) []byte {
	for i := 0; i < len(n.Content); i++ {
		start := len(text) + depth*len(indent)
		if v := n.Content[i]; n.Kind == yaml.SequenceNode && inLines(v) {
			text = appendLines(text, v, depth+1)
			copy(text[start:], "- ") // before the first field
			continue
		}
		text = append(text, strings.Repeat(indent, depth)...)
		if n.Kind == yaml.SequenceNode {
			text = append(text, "- "...)
		} else {
			text = append(appendFlow(text, n.Content[i]), ':')
			if i++; inLines(n.Content[i]) {
				text = appendLines(append(text, '\n'), n.Content[i], depth+1)
				continue
			}
			text = append(text, ' ')
		}
		text = append(appendFlow(text, n.Content[i]), '\n')
	}
	return text
}

// inLines reports whether a node is written on lines of its own.
func inLines(n *yaml.Node) bool { return n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 }

// appendFlow writes a node in one line. A mapping without FlowStyle is one pair of a list, which needs no braces.
func appendFlow(text []byte, n *yaml.Node) []byte {
	ends := "{}"
	switch {
	case n.Kind == yaml.ScalarNode && quoted(n):
		return strconv.AppendQuote(text, n.Value) // YAML has the same escapes
	case n.Kind == yaml.ScalarNode:
		return append(text, n.Value...)
	case n.Kind == yaml.SequenceNode:
		ends = "[]"
	case inLines(n):
		ends = ""
	}
	text = append(text, ends[:len(ends)/2]...)
	for i, v := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 1:
			text = append(text, ": "...)
		case i > 0:
			text = append(text, ", "...)
		}
		text = appendFlow(text, v)
	}
	return append(text, ends[len(ends)/2:]...)
}
