package policy

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// textRule is a kind of text: a tag "text" of a field names one.
type textRule struct {
	problem func(string) string // what is wrong with a text, or ""
	quotes  func(string) bool   // whether it is written in quotes
	schema  jsonSchema
}

// texts are the kinds of text. The one without a name is a name that is looked up afterwards.
var texts = map[string]textRule{
	"":          {anyText, misread, jsonSchema{}},
	"name":      {NameProblem, misread, jsonSchema{"pattern": "^[a-z0-9][a-z0-9_.-]*$", "maxLength": nameBytesMax}},
	"reason":    {reasonProblem, always, jsonSchema{"maxLength": reasonBytesMax}},
	"style":     {anyText, misread, jsonSchema{"pattern": "^(" + strings.Join(headerStyles, "|") + "|" + quotaOf + ".*)$"}},
	"header":    {headerProblem, always, jsonSchema{"pattern": "^[A-Za-z0-9_-]+$", "maxLength": nameBytesMax}},
	"words":     {wordsProblem, always, jsonSchema{"minLength": 1, "maxLength": gateTextBytesMax}},
	"body":      {bodyProblem, always, jsonSchema{"maxLength": gateBodyBytesMax}},
	"method":    {methodProblem, always, jsonSchema{"pattern": "^[A-Z-]*$", "maxLength": nameBytesMax}},
	"signature": {anyText, never, jsonSchema{"enum": jwtAlgorithms}},
	"envoy":     {envoyTextProblem, misread, jsonSchema{"minLength": 1, "maxLength": envoyTextMax}},
}

// anyTextKind is text that is checked later.
var anyTextKind = textKind("")

func anyText(string) string { return "" }
func always(string) bool    { return true }
func never(string) bool     { return false }
func misread(s string) bool { return !isPlain(s) }

// textKind is text of the tag text. Where a field may be absent, it may also be empty.
func textKind(tag reflect.StructTag) kind {
	r := texts[tag.Get("text")]
	mayBeEmpty := tag.Get("policy") != "" && !strings.Contains(tag.Get("policy"), ",required")
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
		node: func(of reflect.Value, _ bool) *yaml.Node { return r.node(of.String()) },
		// YAML takes an unquoted 7 or true for something else than text. Here it is text.
		schema: func() jsonSchema { return r.schema.with("type", []string{"string", "number", "boolean"}) },
	}
}

func (r textRule) node(text string) *yaml.Node { return scalar(text, r.quotes(text)) }

// wordsProblem is the problem of text that stands in a header or an address.
func wordsProblem(text string) string {
	switch {
	case text == "":
		return "must not be empty"
	case len(text) > gateTextBytesMax:
		return tooLong(text, gateTextBytesMax)
	}
	return reasonProblem(text)
}

func tooLong(text string, bytesMax int) string {
	return fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), bytesMax)
}

// reasonProblem is the problem of text that appears in a header and in a log line.
func reasonProblem(text string) string {
	switch {
	case len(text) > reasonBytesMax:
		return tooLong(text, reasonBytesMax)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "must be valid UTF-8 without control characters"
	}
	return ""
}

// headerProblem is the problem of the name of a header.
func headerProblem(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if name == "" || len(name) > nameBytesMax || strings.Trim(name, letters) != "" {
		return shown(name) + " is no name of a header"
	}
	return ""
}

func bodyProblem(text string) string {
	if len(text) > gateBodyBytesMax {
		return tooLong(text, gateBodyBytesMax)
	}
	return ""
}

func methodProblem(text string) string {
	if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || len(text) > nameBytesMax {
		return shown(text) + " is no method: they are in upper case"
	}
	return ""
}

func envoyTextProblem(text string) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > envoyTextMax:
		return tooLong(text, envoyTextMax)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "must be valid UTF-8 without control characters"
	}
	return ""
}
