package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// decoder turns YAML nodes into policies. It checks only the form of the text: kinds of values, unknown and missing
// fields. Policy.problems checks the meaning of the numbers afterwards. The decoder continues after a problem, to
// report all of them.
//
// Aliases are refused, so the work is bounded by the size of the file.
type decoder struct {
	at       map[string]place       // position of each field, by path
	problems []Problem              // as found; error sorts them
	failed   map[string]bool        // paths that could not be read; report drops the problems of what lies in them
	zones    map[string]*limit.Zone // by name; each is loaded once and shared by the limits of that zone
	// loadZone is limit.LoadZone or the caller's. Its errors must be *limit.FieldErrors: others count as success.
	loadZone func(name string) (*limit.Zone, error)
}

func newDecoder() *decoder {
	return &decoder{
		at:       map[string]place{},
		failed:   map[string]bool{},
		zones:    map[string]*limit.Zone{},
		loadZone: limit.LoadZone,
	}
}

// place is a position in the file. Both numbers are from 1; they are 0 in what did not come as text.
type place struct{ line, column int }

// value is one value of the file together with its field.
type value struct {
	node *yaml.Node // nil if the file does not have the field
	name string     // of the field; "" for an item of a list
	path string     // as in Problem
}

// fail reports a problem of a value, and marks the value as unread: report then drops what the checks of the numbers
// find in it. A problem that leaves the value usable is for add.
func (d *decoder) fail(path, format string, args ...any) {
	d.add(d.placeOf(path), path, fmt.Sprintf(format, args...))
	d.failed[path] = true
}

func (d *decoder) add(at place, path, message string) {
	d.problems = append(d.problems, Problem{at.line, at.column, path, message})
}

// placeOf returns the position of a field, or of the nearest enclosing field that the file has.
func (d *decoder) placeOf(path string) place {
	for {
		if at, ok := d.at[path]; ok || path == "" {
			return at
		}
		path = outer(path)
	}
}

// report adds the problems of the validation, except for fields that could not even be read.
func (d *decoder) report(problems []Problem) {
	for _, p := range problems {
		if !d.unread(p.Path) {
			d.add(d.placeOf(p.Path), p.Path, p.Message)
		}
	}
}

// unread reports whether a field, or an enclosing one, was refused while decoding.
func (d *decoder) unread(path string) bool {
	for path != "" {
		if d.failed[path] {
			return true
		}
		path = outer(path)
	}
	return false
}

// outer cuts the last step off a path.
func outer(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// below returns the path of a field.
func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// refuse reports a value of the wrong kind.
func (d *decoder) refuse(v value, want string) {
	got := shown(v.node.Value)
	switch {
	case v.node.Kind == yaml.MappingNode:
		got = "a mapping"
	case v.node.Kind == yaml.SequenceNode:
		got = "a list"
	case v.node.Kind == yaml.AliasNode:
		got = "an alias (write the value out)"
	case v.node.ShortTag() == "!!null":
		got = "nothing"
	case quoted(v.node):
		got += " in quotes"
	}
	d.fail(v.path, "must be %s, not %s", want, got)
}

func quoted(n *yaml.Node) bool { return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 }

// entries lists the fields of a mapping in file order, each name once. It reports any other kind of value, which has
// none.
func (d *decoder) entries(v value) []value {
	if v.node.Kind != yaml.MappingNode {
		d.refuse(v, "a mapping")
		return nil
	}
	lines := map[string]int{} // by name; a node that did not come as text has each name once
	list := make([]value, 0, len(v.node.Content)/2)
	for i := 0; i < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		e := value{v.node.Content[i+1], key.Value, below(v.path, shown(key.Value))}
		if first, twice := lines[e.name]; twice {
			d.add(place{key.Line, key.Column}, e.path, fmt.Sprintf("is there twice: first in line %d", first))
			continue
		}
		if key.Line > 0 {
			lines[e.name] = key.Line
			d.at[e.path] = place{key.Line, key.Column}
		}
		if key.Kind != yaml.ScalarNode {
			d.fail(e.path, "the name of a field must be text")
			continue
		}
		list = append(list, e)
	}
	return list
}

// knows reports unknown fields of a mapping.
func (d *decoder) knows(v value, given []value, known []string) {
	for _, e := range given {
		switch {
		case slices.Contains(known, e.name):
		case len(known) == 0:
			d.fail(e.path, "is unknown here: %s has no fields", v.name)
		default:
			names := ": known are "
			if meant := didYouMean(nearest(e.name, known)); meant != "" {
				names = meant + " Known are "
			}
			d.fail(e.path, "is unknown here%s%s", names, strings.Join(known, ", "))
		}
	}
}

// items lists the items of a list. It reports any other kind of value, and then ok is false; an empty list is ok.
func (d *decoder) items(v value) (list []value, ok bool) {
	if v.node.Kind != yaml.SequenceNode {
		d.refuse(v, "a list")
		return nil, false
	}
	for i, node := range v.node.Content {
		item := value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i)}
		if node.Line > 0 {
			d.at[item.path] = place{node.Line, node.Column}
		}
		list = append(list, item)
	}
	return list, true
}

// error returns the problems in the order of the file, or nil if there are none.
func (d *decoder) error(fileName string) error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &ParseError{File: fileName, Problems: d.problems}
}

// top returns the root of a document as a value.
func (d *decoder) top(root *yaml.Node) value {
	d.at[""] = place{root.Line, root.Column}
	return value{node: root}
}
