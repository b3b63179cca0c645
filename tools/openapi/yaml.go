package main

import "go.yaml.in/yaml/v4"

// object makes a mapping of names and values in the order given: the document's order is the reader's.
func object(pairs ...any) *yaml.Node {
	o := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(pairs); i += 2 {
		put(o, pairs[i].(string), pairs[i+1].(*yaml.Node))
	}
	return o
}

// put adds a name and its value at the end. It does not look whether the name is there.
func put(o *yaml.Node, name string, value *yaml.Node) {
	o.Content = append(o.Content, text(name), value)
}

func list(items ...*yaml.Node) *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Content: items} }

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func number(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: s} }

func flag(b bool) *yaml.Node {
	if b {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false"}
}

// ref refers to a schema of the document.
func ref(name string) *yaml.Node { return object("$ref", text("#/components/schemas/"+name)) }
