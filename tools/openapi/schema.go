package main

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schemas are the messages and enums that procedures use, by name. All are of one package, so the short name is enough.
type schemas map[string]*yaml.Node

// knownTypes are the types that ProtoJSON writes in a form of their own.
var knownTypes = map[protoreflect.FullName]*yaml.Node{
	"google.protobuf.Duration": object("type", text("string"), "pattern", text(`^-?[0-9]+(\.[0-9]{1,9})?s$`),
		"description", text("A length of time in seconds, as in 1.5s."), "examples", list(text("1.5s"))),
	"google.protobuf.Timestamp": object("type", text("string"), "format", text("date-time"), "description",
		text("An instant, RFC 3339.")),
}

// message returns a reference to a message, which it describes first if nothing has yet.
func (s schemas) message(m *protogen.Message) *yaml.Node {
	name := string(m.Desc.Name())
	if form, found := knownTypes[m.Desc.FullName()]; found {
		s[name] = form
		return ref(name)
	}
	if s[name] != nil {
		return ref(name)
	}
	properties := object()
	schema := object("type", text("object"), "description", comment(m.Comments))
	s[name] = schema // before its fields: a message may contain itself
	for _, field := range m.Fields {
		put(properties, field.Desc.JSONName(), s.field(field))
	}
	for _, one := range m.Oneofs {
		if one.Desc.IsSynthetic() {
			continue
		}
		var names []string
		for _, field := range one.Fields {
			names = append(names, field.Desc.JSONName())
		}
		about := schema.Content[3] // the value of "description": names and values take turns
		about.Value = strings.TrimSpace(about.Value + " At most one of " + strings.Join(names, ", ") + " is set.")
	}
	if len(m.Fields) > 0 {
		put(schema, "properties", properties)
	}
	return ref(name)
}

func (s schemas) field(f *protogen.Field) *yaml.Node {
	about := comment(f.Comments)
	var form *yaml.Node
	switch {
	case f.Desc.IsMap():
		form = object("type", text("object"), "additionalProperties", s.value(f.Message.Fields[1]))
	case f.Desc.IsList():
		form = object("type", text("array"), "items", s.value(f))
	default:
		form = s.value(f)
	}
	if about.Value != "" {
		put(form, "description", about)
	}
	return form
}

// value returns the form of one value of a field, as ProtoJSON has it.
func (s schemas) value(f *protogen.Field) *yaml.Node {
	switch f.Desc.Kind() {
	case protoreflect.MessageKind:
		return s.message(f.Message)
	case protoreflect.EnumKind:
		return s.enum(f.Enum)
	case protoreflect.BoolKind:
		return object("type", text("boolean"))
	case protoreflect.StringKind:
		return object("type", text("string"))
	case protoreflect.BytesKind:
		return object("type", text("string"), "contentEncoding", text("base64"))
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object("type", text("number"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object("type", text("string"), "format", text("uint64"), "pattern", text("^[0-9]+$"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return object("type", text("string"), "format", text("int64"), "pattern", text("^-?[0-9]+$"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return object("type", text("integer"), "format", text("uint32"), "minimum", number("0"))
	}
	return object("type", text("integer"), "format", text("int32"))
}

func (s schemas) enum(e *protogen.Enum) *yaml.Node {
	name := string(e.Desc.Name())
	values, about := list(), comment(e.Comments)
	for _, value := range e.Values {
		values.Content = append(values.Content, text(string(value.Desc.Name())))
		about.Value += "\n- " + string(value.Desc.Name()) + ": " + comment(value.Comments).Value
	}
	s[name] = object("type", text("string"), "description", about, "enum", values)
	return ref(name)
}

// components lists all schemas, and that of an error.
func (s schemas) components() *yaml.Node {
	s["Error"] = object("type", text("object"), "description",
		text("Why there is no answer, as the Connect protocol has it."), "required", list(text("code")),
		"properties", object(
			"code", object("type", text("string"), "description", text("Name of the code, as in unavailable.")),
			"message", object("type", text("string"), "description", text("What failed, on what, and what to do.")),
			"details", object("type", text("array"), "items", object("type", text("object"), "properties", object(
				"type", object("type", text("string"), "description",
					text("stint.v1.Failure, which says whether the request may have been counted.")),
				"value", object("type", text("string"), "contentEncoding", text("base64")),
				"debug", object("description", text("The detail as JSON.")))))))
	all := object()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		put(all, name, s[name])
	}
	return all
}

// comment returns the text above a declaration, a line for each of its paragraphs.
func comment(c protogen.CommentSet) *yaml.Node {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(string(c.Leading), "\n\n") {
		if joined := strings.Join(strings.Fields(paragraph), " "); joined != "" {
			paragraphs = append(paragraphs, joined)
		}
	}
	return text(strings.Join(paragraphs, "\n"))
}
