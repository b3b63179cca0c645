package policy

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

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
