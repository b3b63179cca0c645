package policy

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// textRule is a kind of text, selected by a field's tag "text".
type textRule struct {
	problem func(string) string // the problem with a text, or ""
	quotes  func(string) bool   // whether a text is written in quotes
	schema  jsonSchema
}

const upper, lower = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz0123456789"

// texts are the kinds of text. The kind without a name is a name that is looked up afterwards.
var texts = map[string]textRule{
	"":       {anyText, misread, jsonSchema{}},
	"name":   {NameProblem, misread, jsonSchema{"pattern": "^[a-z0-9][a-z0-9_.-]*$", "maxLength": nameBytesMax}},
	"reason": {printable(0, reasonBytesMax), always, jsonSchema{"maxLength": reasonBytesMax}},
	"style": {anyText, misread,
		jsonSchema{"pattern": "^(" + strings.Join(headerStyles, "|") + "|" + quotaOf + ".*)$"}},
	"header": {madeOf(upper+lower+"-_", 1, "name of a header"), always,
		jsonSchema{"pattern": "^[A-Za-z0-9_-]+$", "maxLength": nameBytesMax}},
	"words": {printable(1, gateTextBytesMax), always, jsonSchema{"minLength": 1, "maxLength": gateTextBytesMax}},
	"body":  {atMost(gateBodyBytesMax), always, jsonSchema{"maxLength": gateBodyBytesMax}},
	"method": {madeOf(upper+"-", 0, "method: they are in upper case"), always,
		jsonSchema{"pattern": "^[A-Z-]*$", "maxLength": nameBytesMax}},
	"signature": {anyText, never, jsonSchema{"enum": jwtAlgorithms}},
	"envoy":     {printable(1, envoyTextMax), misread, jsonSchema{"minLength": 1, "maxLength": envoyTextMax}},
}

// anyTextKind is text that is checked later.
var anyTextKind = textKind("")

func anyText(string) string { return "" }
func always(string) bool    { return true }
func never(string) bool     { return false }
func misread(s string) bool { return !isPlain(s) }

// textKind is text of the tag text. A field that may be absent may also be empty.
func textKind(tag reflect.StructTag) kind {
	r := texts[tag.Get("text")]
	mayBeEmpty := tag.Get("policy") != "" && !strings.Contains(tag.Get("policy"), ",required")
	// YAML reads an unquoted 7 or true as a number or truth value. Here it is text.
	schema := r.schema.with("type", []string{"string", "number", "boolean"})
	if mayBeEmpty && r.problem("") != "" { //mutant:editor-refuses-an-empty-text
		schema = jsonSchema{"anyOf": []jsonSchema{schema, {"const": ""}}}
	}
	return kind{
		read: func(d *decoder, v value, into reflect.Value) {
			if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() == "!!null" {
				d.refuse(v, "text")
				return
			}
			into.SetString(v.node.Value)
			if problem := r.problem(v.node.Value); problem != "" && !(mayBeEmpty && v.node.Value == "") {
				d.fail(v.path, "%s", problem)
			}
		},
		node:   func(of reflect.Value, _ bool) *yaml.Node { return r.node(of.String()) },
		schema: schema,
	}
}

func (r textRule) node(text string) *yaml.Node { return scalar(text, r.quotes(text)) }

// printable returns a check for text that can appear in a header, an address and a log line, with a length from least
// to most bytes.
func printable(least, most int) func(string) string {
	return func(text string) string {
		switch {
		case len(text) < least:
			return "must not be empty"
		case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
			return "must be valid UTF-8 without control characters"
		}
		return atMost(most)(text)
	}
}

// atMost returns a check for text of at most bytesMax bytes.
func atMost(bytesMax int) func(string) string {
	return func(text string) string {
		if len(text) > bytesMax {
			return fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), bytesMax)
		}
		return ""
	}
}

// madeOf returns a check for text of at least so many of these letters; isNot says in the problem what else it would
// be.
func madeOf(letters string, least int, isNot string) func(string) string {
	return func(text string) string {
		if len(text) < least || len(text) > nameBytesMax || strings.Trim(text, letters) != "" {
			return shown(text) + " is no " + isNot
		}
		return ""
	}
}
