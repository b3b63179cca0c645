package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// kind defines the representation of a Go type in a policies file: how values are read, written, and described to an
// editor.
type kind struct {
	// read reads a value and checks it alone. It reports a value that it refuses, and into is then of no use.
	read func(d *decoder, v value, into reflect.Value)
	// node returns the value as Format writes it, or nil if there is nothing to write. With told it also includes the
	// numbers that Format leaves out.
	node func(of reflect.Value, told bool) *yaml.Node
	// schema describes the values in JSON Schema.
	schema jsonSchema
}

// kindOf returns the kind of a type. The tags of the field add what the type does not determine.
func kindOf(t reflect.Type, tag reflect.StructTag) kind {
	if own, ok := ownKinds[t]; ok {
		return own
	}
	if words := wordsOf[t]; words != nil {
		return wordKind(words)
	}
	switch t.Kind() {
	case reflect.Bool:
		return flagKind
	case reflect.String:
		if tag.Get("text") == "style" {
			return styleKind()
		}
		return textKind(tag)
	case reflect.Int64: // limit.Span
		return spanKind(tag)
	case reflect.Pointer:
		return optionalKind(t.Elem(), tag)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Pointer {
			return namedKind(t, tag)
		}
		return listKind(t, tag)
	case reflect.Struct:
		return mappingKind(fieldsOf(t), finishers[t])
	}
	return numberKind(t, tag)
}

// kindFor makes a kind from functions on a T.
func kindFor[T any](read func(*decoder, value, *T), node func(*T) *yaml.Node, schema jsonSchema) kind {
	of := func(v reflect.Value) *T { return v.Addr().Interface().(*T) }
	return kind{
		read:   func(d *decoder, v value, into reflect.Value) { read(d, v, of(into)) },
		node:   func(v reflect.Value, _ bool) *yaml.Node { return node(of(v)) },
		schema: schema,
	}
}

// readInto reads a value into its place.
func (k kind) readInto(d *decoder, v value, into any) { k.read(d, v, reflect.ValueOf(into).Elem()) }

// nodeOf returns the node of a value that a pointer points at.
func (k kind) nodeOf(pointer any) *yaml.Node { return k.node(reflect.ValueOf(pointer).Elem(), false) }

// flagKind is true or false.
var flagKind = kind{
	read: func(d *decoder, v value, into reflect.Value) {
		if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" {
			d.refuse(v, "true or false")
			return
		}
		into.SetBool(strings.EqualFold(v.node.Value, "true"))
	},
	node: func(of reflect.Value, _ bool) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(of.Bool())}
	},
	schema: jsonSchema{"type": "boolean"},
}

// numberKind is a decimal number, optionally with "_" among its digits, within the tags min and max.
func numberKind(t reflect.Type, tag reflect.StructTag) kind {
	size := uint64(1)<<t.Bits() - 1
	least, most := bound(tag, "min", 0), bound(tag, "max", size)
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			n, ok := d.number(v)
			switch {
			case !ok:
			case n > size:
				d.fail(v.path, "%d is more than %d", n, size)
			case n < least && most == size:
				d.fail(v.path, "must be at least %d%s", least, hint(tag))
			case n < least || n > most:
				d.fail(v.path, "must be %d to %d%s", least, most, hint(tag))
			default:
				into.SetUint(n)
			}
		},
		node: func(of reflect.Value, _ bool) *yaml.Node { return scalar(strconv.FormatUint(of.Uint(), 10), false) },
		schema: jsonSchema{"type": []string{"integer", "string"}, "pattern": "^[0-9_]*_[0-9_]*$",
			"minimum": least, "maximum": most},
	}
}

// bound returns the number of a tag.
func bound(tag reflect.StructTag, key string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(tag.Get(key), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// hint returns the end of a problem, which describes the field.
func hint(tag reflect.StructTag) string {
	about, _, _ := strings.Cut(tag.Get("about"), ".")
	if about == "" {
		return ""
	}
	return ": " + strings.ToLower(about[:1]) + about[1:]
}

// number reads the digits of a number.
func (d *decoder) number(v value) (n uint64, ok bool) {
	digits := strings.ReplaceAll(v.node.Value, "_", "")
	switch {
	case v.node.Kind != yaml.ScalarNode || quoted(v.node):
		d.refuse(v, "a whole number")
		return 0, false
	case strings.HasPrefix(digits, "-"):
		d.fail(v.path, "must not be negative")
		return 0, false
	case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
		d.refuse(v, "a whole number")
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		d.fail(v.path, "is more than 64 bits hold")
	}
	return n, err == nil
}

// wordsOf are the words of a file for enumerated values: the index of each word is its number.
var wordsOf = map[reflect.Type][]string{
	reflect.TypeFor[OnExpire](): {OnExpireCancel: "cancel", OnExpireCommit: "commit"},
	reflect.TypeFor[OnChange](): {AsIs: "as_is", Proportional: "proportional", Additive: "additive",
		Restart: "reset"},
	reflect.TypeFor[OnRecovery](): {RecoverFull: "full", RecoverKeep: "keep"},
	reflect.TypeFor[OnExceeded](): {ExceededDeny: "deny", ExceededChallenge: "challenge"},
	reflect.TypeFor[UnknownKey](): {UnknownKeyAllow: "allow", UnknownKeyDeny: "deny"},
	// An anchor, the only word in a file that selects an algorithm.
	reflect.TypeFor[limit.Algorithm](): {limit.FixedWindow: "epoch", limit.FixedWindowFirstHit: "first_hit"},
	reflect.TypeFor[limit.Unit]():      unitWords,
	reflect.TypeFor[KeyForm]():         {KeysPlain: "plain", KeysHashed: "hashed"},
	reflect.TypeFor[GateProxy](): {ProxyNginx: "nginx", ProxyIngressNginx: "ingress-nginx",
		ProxyForwarded: "x-forwarded", ProxyPath: "path"},
	reflect.TypeFor[OnMissing](): {MissingDeny: "deny", MissingSkip: "skip", MissingShared: "shared"},
	reflect.TypeFor[FailMode]():  {FailClosed: "closed", FailOpen: "open"},
	reflect.TypeFor[NoMatch]():   {NoMatchAllow: "allow", NoMatchDeny: "deny"},
	reflect.TypeFor[EntryMode](): {EntryEnforce: "enforce", EntryCount: "count", EntryShadow: "shadow"},
}

// wordKind is one of a few words: the index of a word in the list is its value, and "" in the list is not a word.
func wordKind(list []string) kind {
	known := slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == "" })
	last := len(known) - 1
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			if v.node.Kind != yaml.ScalarNode || !slices.Contains(known, v.node.Value) {
				d.refuse(v, strings.Join(known[:last], ", ")+" or "+known[last])
				return
			}
			into.SetUint(uint64(slices.Index(list, v.node.Value)))
		},
		node: func(of reflect.Value, _ bool) *yaml.Node {
			switch n := of.Uint(); {
			case n >= uint64(len(list)): // Build refuses such values
				return scalar(strconv.FormatUint(n, 10), false)
			case list[n] == "":
				return nil
			default:
				return scalar(list[n], false)
			}
		},
		schema: jsonSchema{"enum": known},
	}
}

// optionalKind is a value that may be absent: a pointer.
func optionalKind(t reflect.Type, tag reflect.StructTag) kind {
	of := kindOf(t, tag)
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			read := reflect.New(t)
			if of.read(d, v, read.Elem()); !d.failed[v.path] {
				into.Set(read)
			}
		},
		node: func(v reflect.Value, told bool) *yaml.Node {
			if v.IsNil() {
				return nil
			}
			return of.node(v.Elem(), told)
		},
		schema: of.schema,
	}
}

// listKind is a list with a length within the tags least and most.
func listKind(t reflect.Type, tag reflect.StructTag) kind {
	of := kindOf(t.Elem(), reflect.StructTag(`text:"`+tag.Get("text")+`"`))
	least, most := bound(tag, "least", 0), bound(tag, "most", fileBytesMax)
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			items, ok := d.items(v)
			switch n := uint64(len(items)); {
			case !ok:
				return
			case n < least:
				d.add(d.placeOf(v.path), v.path, "must not be empty")
			case n > most:
				d.add(d.placeOf(v.path), v.path, fmt.Sprintf("has %d entries: at most %d are allowed", n, most))
				items = items[:most] // later checks take limits times tiers
			}
			into.Set(reflect.MakeSlice(t, len(items), len(items)))
			for i, item := range items {
				of.read(d, item, into.Index(i))
			}
		},
		node: func(values reflect.Value, told bool) *yaml.Node {
			n := &yaml.Node{Kind: yaml.SequenceNode}
			for i := range values.Len() {
				n.Content = append(n.Content, of.node(values.Index(i), told))
			}
			return styled(n, tag)
		},
		schema: jsonSchema{"type": "array", "items": of.schema, "minItems": least, "maxItems": most},
	}
}

// namedKind is a mapping of names to values that hold their name in the field Name, sorted by it.
func namedKind(t reflect.Type, tag reflect.StructTag) kind {
	of, names := kindOf(t.Elem().Elem(), ""), texts[tag.Get("text")]
	nameOf := func(v reflect.Value) string { return v.Elem().FieldByName("Name").String() }
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			entries := d.entries(v)
			slices.SortStableFunc(entries, func(a, b value) int { return strings.Compare(a.name, b.name) })
			for _, e := range entries {
				if problem := names.problem(e.name); problem != "" {
					d.add(d.placeOf(e.path), e.path, problem)
				}
				one := reflect.New(t.Elem().Elem())
				one.Elem().FieldByName("Name").SetString(e.name)
				of.read(d, e, one.Elem())
				into.Set(reflect.Append(into, one))
			}
		},
		node: func(values reflect.Value, told bool) *yaml.Node {
			n := &yaml.Node{Kind: yaml.MappingNode}
			for i := range values.Len() {
				v := values.Index(i)
				n.Content = append(n.Content, names.node(nameOf(v)), of.node(v.Elem(), told))
			}
			return styled(n, tag)
		},
		schema: jsonSchema{"type": "object", "propertyNames": names.schema, "additionalProperties": of.schema},
	}
}

// styled gives a list or mapping the style of the tag lines: items gives each item a line of its own, fields each field
// of an item as well.
func styled(n *yaml.Node, tag reflect.StructTag) *yaml.Node {
	lines := tag.Get("lines")
	if lines == "" {
		n.Style = yaml.FlowStyle
	}
	for _, v := range n.Content {
		if lines == "fields" && v.Kind == yaml.MappingNode {
			v.Style = 0
		}
	}
	return n
}

// partKind is a value that stands for a struct with this value as one field.
func partKind(of kind, goName string) kind {
	return kind{
		read:   func(d *decoder, v value, into reflect.Value) { of.read(d, v, into.FieldByName(goName)) },
		node:   func(v reflect.Value, told bool) *yaml.Node { return of.node(v.FieldByName(goName), told) },
		schema: of.schema,
	}
}

// eitherKind is a mapping, or a value of another form. isMapping selects the form to write.
func eitherKind(fields, other kind, isMapping func(reflect.Value) bool) kind {
	of := func(mapping bool) kind {
		if mapping {
			return fields
		}
		return other
	}
	return kind{
		read:   func(d *decoder, v value, into reflect.Value) { of(v.node.Kind == yaml.MappingNode).read(d, v, into) },
		node:   func(v reflect.Value, told bool) *yaml.Node { return of(isMapping(v)).node(v, told) },
		schema: jsonSchema{"anyOf": []jsonSchema{other.schema, fields.schema}},
	}
}
