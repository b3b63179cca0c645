package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// decoder turns YAML nodes into policies. It checks only the form of the text: kinds of values, unknown and missing
// fields. Policy.problems checks the meaning of the numbers afterwards. The decoder continues after a problem, to report
// all of them.
//
// Aliases are refused, so the work is bounded by the size of the file.
type decoder struct {
	at       map[string]place // position of each field, by path
	problems []Problem
	failed   map[string]bool        // paths that could not be read
	zones    map[string]*limit.Zone // by name; each is loaded once and shared by the limits of that zone
}

func newDecoder() *decoder {
	return &decoder{at: map[string]place{}, failed: map[string]bool{}, zones: map[string]*limit.Zone{}}
}

type place struct{ line, column int }

// value is one value of the file together with its field.
type value struct {
	node *yaml.Node
	name string // of the field; "" for an item of a list
	path string
}

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

// entries lists the fields of a mapping in file order, each name once.
func (d *decoder) entries(v value) []value {
	if v.node.Kind != yaml.MappingNode {
		d.refuse(v, "a mapping")
		return nil
	}
	lines := map[string]int{}
	var list []value
	for i := 0; i < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		e := value{v.node.Content[i+1], key.Value, v.path + "." + shown(key.Value)}
		e.path = strings.TrimPrefix(e.path, ".")
		if first, twice := lines[e.name]; twice {
			d.add(place{key.Line, key.Column}, e.path, fmt.Sprintf("is there twice: first in line %d", first))
			continue
		}
		lines[e.name] = key.Line
		d.at[e.path] = place{key.Line, key.Column}
		if key.Kind != yaml.ScalarNode {
			d.fail(e.path, "the name of a field must be text")
			continue
		}
		list = append(list, e)
	}
	return list
}

// fields returns the known fields of a mapping by name, and reports the others.
func (d *decoder) fields(v value, known ...string) map[string]value {
	found := map[string]value{}
	for _, e := range d.entries(v) {
		if slices.Contains(known, e.name) {
			found[e.name] = e
		} else {
			names := ": known are "
			if meant := didYouMean(nearest(e.name, known)); meant != "" {
				names = meant + " Known are "
			}
			d.fail(e.path, "is unknown here%s%s", names, strings.Join(known, ", "))
		}
	}
	return found
}

func (d *decoder) items(v value) []value {
	if v.node.Kind != yaml.SequenceNode {
		d.refuse(v, "a list")
		return nil
	}
	var list []value
	for i, node := range v.node.Content {
		item := value{node: node, path: fmt.Sprintf("%s[%d]", v.path, i)}
		d.at[item.path] = place{node.Line, node.Column}
		list = append(list, item)
	}
	return list
}

// The scalar readers below leave their target unchanged when the field is absent, that is, when v has no node.

func (d *decoder) text(v value, into *string) {
	if v.node == nil {
		return
	}
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() == "!!null" {
		d.refuse(v, "text")
		return
	}
	*into = v.node.Value
}

func (d *decoder) flag(v value, into *bool) {
	if v.node == nil {
		return
	}
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" {
		d.refuse(v, "true or false")
		return
	}
	*into = strings.EqualFold(v.node.Value, "true")
}

// number reads a plain decimal number, optionally with "_" between digits.
func (d *decoder) number(v value, into *uint64) bool {
	if v.node == nil {
		return false
	}
	digits := strings.ReplaceAll(v.node.Value, "_", "")
	if v.node.Kind != yaml.ScalarNode || quoted(v.node) {
		d.refuse(v, "a whole number")
		return false
	}
	if strings.HasPrefix(digits, "-") {
		d.fail(v.path, "must not be negative")
		return false
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		d.refuse(v, "a whole number")
		return false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		d.fail(v.path, "is more than 64 bits hold")
		return false
	}
	*into = n
	return true
}

// small reads a number that must fit T.
func small[T uint8 | uint16 | uint32](d *decoder, v value, into *T) {
	var n uint64
	if !d.number(v, &n) {
		return
	}
	if most := uint64(^T(0)); n > most {
		d.fail(v.path, "%d is more than %d", n, most)
		return
	}
	*into = T(n)
}

// word reads one of a few words. The index of a word in the list is its value; "" in the list is not a word.
func word[T ~uint8](d *decoder, v value, words []string, into *T) {
	if v.node == nil {
		return
	}
	known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	i := slices.Index(words, v.node.Value)
	if v.node.Kind != yaml.ScalarNode || !slices.Contains(known, v.node.Value) {
		last := len(known) - 1
		d.refuse(v, strings.Join(known[:last], ", ")+" or "+known[last])
		return
	}
	*into = T(i)
}

// optionalNumber reads a number that may be absent; nil means absent.
func (d *decoder) optionalNumber(v value) *uint64 {
	var n uint64
	if !d.number(v, &n) {
		return nil
	}
	return &n
}

func (d *decoder) span(v value, into *limit.Span) {
	if v.node == nil {
		return
	}
	if v.node.Kind != yaml.ScalarNode {
		d.refuse(v, aDuration)
		return
	}
	length, err := ParseDuration(v.node.Value)
	switch {
	case err != nil:
		d.refuse(v, aDuration)
	case length <= 0:
		d.fail(v.path, "must be more than 0, not %v", length)
	case length%time.Microsecond != 0:
		d.fail(v.path, "must be whole microseconds, not %v", length)
	default:
		*into = limit.Span(length.Microseconds())
	}
}

const aDuration = "a duration such as 90s, 2h30m or 30d"

// require reports the required fields that are absent.
func (d *decoder) require(v value, fields map[string]value, names ...string) {
	for _, name := range names {
		if _, ok := fields[name]; !ok && v.node.Kind == yaml.MappingNode {
			d.fail(v.path+"."+name, "is missing")
		}
	}
}

// shown returns text from a file in the form used in errors: short, on one line, and quoted unless it is a name.
func shown(text string) string {
	const bytesMax = 40
	if NameProblem(text) == "" {
		return text
	}
	if len(text) > bytesMax {
		return strconv.Quote(strings.ToValidUTF8(text[:bytesMax], "")) + "..."
	}
	return strconv.Quote(text)
}
