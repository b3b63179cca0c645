package policy

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// field is one field of a mapping in a policies file. The schema of the file is the tags of the Go fields:
//
//	policy  its name, and then required; always: written even if it has its default; or told: messages have it even then
//	usual   the default, if not zero: a value, or the only item of a list
//	about   a sentence for editors; problems end with its beginning
//	min, max, step; least, most   bounds of a number or duration; of the length of a list
//	text    the kind of text: one of texts
//	lines   a list or mapping with each item on a line of its own
//
// Parse, Format, the messages of the API and JSONSchema come from them. Checks that involve several fields are Go code.
type field struct {
	kind
	name, about            string
	required, always, told bool

	index []int                                // of the Go field
	usual func(of reflect.Value) reflect.Value // the default of a field in a given struct; nil means zero
	// unless reports whether Format leaves the field out; nil means when it has its default.
	unless func(of reflect.Value) bool
}

// fieldsOf returns the fields of a struct in the order of the struct, which is that of Format.
func fieldsOf(t reflect.Type) (fields []field) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("policy") != "" {
			fields = append(fields, fieldOf(f))
		}
	}
	return fields
}

// fieldsBy returns fields of a T with other tags than the struct's. The names of Go fields and their tags alternate.
func fieldsBy[T any](namesAndTags ...string) (fields []field) {
	for i := 0; i < len(namesAndTags); i += 2 {
		f, _ := reflect.TypeFor[T]().FieldByName(namesAndTags[i])
		f.Tag = reflect.StructTag(namesAndTags[i+1])
		fields = append(fields, fieldOf(f))
	}
	return fields
}

// fieldOf makes the field of a Go field.
func fieldOf(goField reflect.StructField) field {
	tag := goField.Tag
	options := strings.Split(tag.Get("policy"), ",")
	f := field{
		kind:     kindOf(goField.Type, tag),
		name:     options[0],
		about:    tag.Get("about"),
		required: slices.Contains(options, "required"),
		always:   slices.Contains(options, "always"),
		told:     slices.Contains(options, "told"),
		index:    goField.Index,
	}
	if text, ok := tag.Lookup("usual"); ok {
		node := scalar(text, false)
		if goField.Type.Kind() == reflect.Slice {
			node = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{node}}
		}
		usual := reflect.New(goField.Type).Elem()
		f.read(newDecoder(), value{node: node}, usual)
		f.usual = func(reflect.Value) reflect.Value { return usual }
	}
	return f
}

// omits reports whether Format leaves the field of a struct out because it has its default.
func (f *field) omits(of reflect.Value, told bool) bool {
	v := of.FieldByIndex(f.index)
	switch {
	case f.required || f.always || told && f.told:
		return false
	case f.unless != nil:
		return f.unless(of)
	case f.usual == nil:
		return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
	}
	return reflect.DeepEqual(v.Interface(), f.usual(of).Interface())
}

// finishers complete or reject structs after all their fields have been read.
var finishers = map[reflect.Type]func(d *decoder, v value, of any){
	reflect.TypeFor[Lockout]():   finishLockout,
	reflect.TypeFor[GateEntry](): finishGateEntry,
	reflect.TypeFor[EnvoyRule](): finishEnvoyRule,
}

// mappingKind is a mapping with these fields, read and written in their order. done, if set, completes or rejects a
// struct that was read.
func mappingKind(fields []field, done func(d *decoder, v value, of any)) kind {
	properties, names, required := jsonSchema{}, []string{}, []string{}
	for i := range fields {
		f := &fields[i]
		names = append(names, f.name)
		properties[f.name] = f.schema.with("description", f.about)
		if f.required {
			required = append(required, f.name)
		}
	}
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			given := d.entries(v)
			d.knows(v, given, names)
			for i := range fields {
				f := &fields[i]
				if f.usual != nil {
					into.FieldByIndex(f.index).Set(f.usual(into))
				}
				at := slices.IndexFunc(given, func(e value) bool { return e.name == f.name })
				switch {
				case at >= 0:
					f.read(d, given[at], into.FieldByIndex(f.index))
				case f.required && v.node.Kind == yaml.MappingNode:
					d.fail(below(v.path, f.name), "is missing")
				}
			}
			if done != nil {
				done(d, v, into.Addr().Interface())
			}
		},
		node: func(of reflect.Value, told bool) *yaml.Node {
			n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
			for i := range fields {
				f := &fields[i]
				if f.omits(of, told) {
					continue
				}
				if v := f.node(of.FieldByIndex(f.index), told); v != nil {
					n.Content = append(n.Content, scalar(f.name, false), v)
				}
			}
			return n
		},
		schema: jsonSchema{"type": "object", "properties": properties, "required": required,
			"additionalProperties": false},
	}
}
