package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds of a key that a template makes.
const (
	keyBytesMax   = 512 // as the API has it (R23)
	keyPartsMax   = 21  // between slashes: the most that a namespace of hashed keys allows (R22)
	valueBytesMax = 200 // of the value of a field, escaped
)

// Template makes the key of an entry out of literal text and fields in braces, such as "ip:{remote_address}". Its zero
// value makes the empty key. It is immutable: any number of goroutines may use it.
//
// The values of fields come from outside, so Key writes "%", "=", "|", "{", "}", "/" and control characters in them as
// %XX. So if literal text with one of these separates the fields, two different lists of values never make the same
// key, and a client cannot write the {tag} that chooses a key's shard, nor the "/" that ends the key of a parent. A
// policies file can, with "{{" and "}}": "{{{user}}}|login", and with "/".
type Template struct {
	text  string
	parts []templatePart
	room  int // bytes of the longest value that is written in full
}

// templatePart is literal text, or a field if its name is not empty.
type templatePart struct{ literal, field string }

// ParseTemplate reads a template. "{{" and "}}" stand for braces. Each field must be among known, unless known is nil.
// The error text is meant to follow the name of the file's field.
func ParseTemplate(text string, known []string) (Template, error) {
	t := Template{text: text}
	if len(text) > keyBytesMax {
		return Template{}, fmt.Errorf("has %d bytes: at most %d are allowed", len(text), keyBytesMax)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Template{}, errors.New("must be valid UTF-8 without control characters")
	}
	var literal strings.Builder
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '}':
			return Template{}, errors.New(`has a "}" without its "{": write "}}" for the character`)
		case rest[0] == '{':
			name, after, closed := strings.Cut(rest[1:], "}")
			if !closed || name == "" || strings.Contains(name, "{") {
				return Template{}, errors.New(`has a "{" that begins no field: write "{{" for the character`)
			}
			if known != nil && !slices.Contains(known, name) {
				return Template{}, fmt.Errorf("has no field {%s} here: known are {%s}",
					name, strings.Join(known, "}, {"))
			}
			t.add(literal.String(), name)
			literal.Reset()
			rest = after
		default:
			literal.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	t.add(literal.String(), "")
	return t, t.fit()
}

// fit gives each value its room. It depends on the template alone: a client that sends a long value for one field does
// not change how another one is written, and thus not the key of a parent.
func (t *Template) fit() error {
	room, fields := keyBytesMax, 0
	for _, p := range t.parts {
		room -= len(p.literal)
		fields += min(len(p.field), 1)
	}
	if t.room = min(room/max(fields, 1), valueBytesMax); fields > 0 && t.room < shortenedMin {
		return fmt.Errorf("has %d fields and %d bytes around them: in a key of %d bytes, %d are left for each value, "+
			"and %d are needed",
			fields, keyBytesMax-room, keyBytesMax, room/fields, shortenedMin)
	}
	if parts := strings.Count(t.sample(), "/") + 1; parts > keyPartsMax {
		return fmt.Errorf("has %d parts between slashes: at most %d are allowed", parts, keyPartsMax)
	}
	return nil
}

// sample returns a key with short values.
func (t Template) sample() string { return t.Key(func(string) string { return "x" }) }

// hasParent reports whether the template's keys have a parent, whatever the values are: text precedes a "/".
func (t Template) hasParent() bool { return strings.LastIndexByte(t.sample(), '/') > 0 }

func (t *Template) add(literal, field string) {
	if literal != "" {
		t.parts = append(t.parts, templatePart{literal: literal})
	}
	if field != "" {
		t.parts = append(t.parts, templatePart{field: field})
	}
}

// String returns the template as it was written.
func (t Template) String() string { return t.text }

// Fields lists the names of the template's fields in their order, with repetitions.
func (t Template) Fields() (names []string) {
	for _, p := range t.parts {
		if p.field != "" {
			names = append(names, p.field)
		}
	}
	return names
}

// Key makes the key. valueOf returns the value of a field. A value that is too long ends in its SHA-256 instead;
// literal text is never shortened.
func (t Template) Key(valueOf func(field string) string) string {
	var key []byte
	for _, p := range t.parts {
		if p.field == "" {
			key = append(key, p.literal...)
			continue
		}
		from := len(key)
		key = AppendEscaped(key, valueOf(p.field))
		key = shortened(key, from, t.room) //mutant:long-value-cuts-the-rest
	}
	return string(key)
}

// emptyValue is how an empty value is written. No other value is written so: in other values, two digits follow each
// "%". So a key is not empty and has text before its "/", whatever a client leaves out.
const emptyValue = "%empty"

// AppendEscaped appends a value from outside, as Template.Key writes it. Bytes that are not UTF-8 become %XX as well: a
// key is text.
func AppendEscaped(key []byte, value string) []byte {
	const digits = "0123456789ABCDEF"
	if value == "" { //mutant:client-omits-a-parent
		return append(key, emptyValue...)
	}
	for i := 0; i < len(value); {
		r, size := utf8.DecodeRuneInString(value[i:])
		//mutant:client-writes-a-mark 2 //mutant:client-writes-a-parent 2 //mutant:client-writes-a-tag 2
		if invalid := r == utf8.RuneError && size == 1; invalid || unicode.IsControl(r) ||
			strings.ContainsRune("%=|{}/", r) {
			for _, c := range []byte(value[i : i+size]) {
				key = append(key, '%', digits[c>>4], digits[c&15])
			}
		} else {
			key = append(key, value[i:i+size]...)
		}
		i += size
	}
	return key
}

// shortenedMark precedes the hash of a value that was too long. No value contains it.
const shortenedMark = "%#"

// shortenedMin is the shortest shortened text: the mark and 128 bits of a SHA-256, in base64 with "-" and "_".
const (
	shortenedMin  = len(shortenedMark) + 22
	shortenedBits = 128
)

// shortened replaces the end of text[from:] by the hash of all of text[from:] if that has more than most bytes.
func shortened(text []byte, from, most int) []byte {
	if len(text)-from <= most {
		return text
	}
	sum := sha256.Sum256(text[from:])
	kept := from + most - shortenedMin
	for kept > from && text[kept]&0xC0 == 0x80 { // not in the middle of a character
		kept--
	}
	return base64.RawURLEncoding.AppendEncode(append(text[:kept], shortenedMark...), sum[:shortenedBits/8])
}

// templateKind is a template. Its user checks the names of the fields.
var templateKind = kindFor(func(d *decoder, v value, into *Template) {
	var text string
	anyTextKind.readInto(d, v, &text)
	d.template(v.path, text, nil, into)
}, func(t *Template) *yaml.Node { return scalar(t.text, true) },
	jsonSchema{"type": []string{"string", "number", "boolean"}, "maxLength": keyBytesMax})

// templateFields refuses a template with unknown fields.
func (d *decoder) templateFields(path string, t Template, known []string) {
	d.template(path, t.text, known, &t)
}

func (d *decoder) template(path, text string, known []string, into *Template) {
	var err error
	if *into, err = ParseTemplate(text, known); err != nil {
		d.fail(path, "%v", err)
	}
}

// BoundKey shortens a key of escaped values to 512 bytes. "/" and tags have no meaning in such a key.
func BoundKey(key []byte) []byte { return shortened(key, 0, keyBytesMax) }
