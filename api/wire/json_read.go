package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// The JSON codec refuses unknown fields: a misspelled "cost" must not be counted as 1. It writes every field that is
// not a message, so that "allowed": false and "remaining": "0" are visible.
var (
	readJSON  = protojson.UnmarshalOptions{}
	writeJSON = protojson.MarshalOptions{EmitDefaultValues: true}
)

// UnmarshalJSON accepts and refuses the same input as readJSON. Checks have their own reader for the JSON that clients
// usually send. That reader gives up at the first input that it cannot judge (an escape, a null, a limit, an unknown
// name, a mistake). The library then reads everything again and decides.
func UnmarshalJSON(data []byte, m proto.Message) error {
	r := jsonReader{rest: data}
	switch m := m.(type) {
	case *stintv1.CheckRequest:
		r.check(m)
	case *stintv1.CheckBatchRequest:
		r.checkBatch(m)
	default:
		return readAnyJSON(data, m)
	}
	r.blanks()
	if !r.unsure && len(r.rest) == 0 {
		return nil
	}
	proto.Reset(m)
	return readAnyJSON(data, m)
}

// readAnyJSON lets the library read. It reports invalid text itself, because the library would only say that something
// ended early.
func readAnyJSON(data []byte, m proto.Message) error {
	err := readJSON.Unmarshal(data, m)
	if err == nil {
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("is empty: send a JSON object, at least {}")
	}
	if problem := textProblem(data); problem != "" {
		return errors.New(problem)
	}
	return err
}

// textProblem returns the problem with the characters of a JSON text (RFC 8259, section 8), or "".
func textProblem(data []byte) string {
	for i := 0; i < len(data); {
		char, size := utf8.DecodeRune(data[i:])
		if char == utf8.RuneError && size == 1 {
			return fmt.Sprintf("byte %d is not UTF-8", i)
		}
		if char != '\\' {
			i += size
			continue
		}
		first, ok := escapedUnit(data[i:])
		switch second, paired := escapedUnit(data[min(i+6, len(data)):]); {
		case !ok:
			i += 2 // the next character is escaped, for example a backslash
		case !utf16.IsSurrogate(first):
			i += 6
		case !paired || utf16.DecodeRune(first, second) == utf8.RuneError:
			return fmt.Sprintf("%s at byte %d is half a character: a surrogate stands in a pair", data[i:i+6], i)
		default:
			i += 12
		}
	}
	return ""
}

// escapedUnit reads the four digits of a \u escape at the start of data.
func escapedUnit(data []byte) (rune, bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(unit), err == nil
}

// jsonReader reads checks. Once it is unsure, its results are invalid, and its methods may return anything.
type jsonReader struct {
	rest   []byte // not yet read
	unsure bool   // never reset
}

func (r *jsonReader) checkBatch(m *stintv1.CheckBatchRequest) {
	seen := false
	r.object(func(name []byte) {
		if string(name) != "checks" || seen {
			r.unsure = true
			return
		}
		seen = true
		r.list(func() {
			check := &stintv1.CheckRequest{}
			m.Checks = append(m.Checks, check)
			r.check(check)
		})
	})
}

func (r *jsonReader) check(m *stintv1.CheckRequest) {
	var seen fields
	r.object(func(name []byte) {
		switch string(name) {
		case "namespace":
			r.once(&seen, 1)
			m.Namespace = r.text()
		case "entries":
			r.once(&seen, 2)
			r.list(func() {
				entry := &stintv1.Entry{}
				m.Entries = append(m.Entries, entry)
				r.entry(entry)
			})
		case "mode":
			r.once(&seen, 3)
			m.Mode = r.mode()
		case "idempotencyId", "idempotency_id":
			r.once(&seen, 4)
			m.IdempotencyId = r.text()
		case "explain":
			r.once(&seen, 5)
			m.Explain = r.bool()
		default:
			r.unsure = true
		}
	})
}

func (r *jsonReader) entry(m *stintv1.Entry) {
	var seen fields
	r.object(func(name []byte) {
		switch string(name) {
		case "policy":
			r.once(&seen, 1)
			m.Policy = r.text()
		case "key":
			r.once(&seen, 2)
			m.Key = r.text()
		case "cost":
			r.once(&seen, 3)
			cost := r.uint64()
			m.Cost = &cost
		case "tier":
			r.once(&seen, 4)
			m.Tier = r.text()
		default:
			r.unsure = true
		}
	})
}

// fields has a bit for each field of a message that was read.
type fields uint8

// once makes the reader unsure if the field was read before.
func (r *jsonReader) once(seen *fields, field uint) {
	r.unsure = r.unsure || *seen&(1<<field) != 0
	*seen |= 1 << field
}

// object reads an object. It calls value for each name; value reads the value behind that name.
func (r *jsonReader) object(value func(name []byte)) {
	r.items('{', '}', func() {
		name := r.quoted()
		r.byte(':')
		if !r.unsure {
			value(name)
		}
	})
}

func (r *jsonReader) list(value func()) { r.items('[', ']', value) }

// items reads a list in open and end. It calls item for each element, which item reads.
func (r *jsonReader) items(open, end byte, item func()) {
	r.byte(open)
	if r.blanks(); len(r.rest) > 0 && r.rest[0] == end {
		r.rest = r.rest[1:]
		return
	}
	for !r.unsure {
		item()
		r.blanks()
		if len(r.rest) > 0 && r.rest[0] == ',' {
			r.rest = r.rest[1:]
			continue
		}
		r.byte(end)
		return
	}
}

// blanks skips white space.
func (r *jsonReader) blanks() {
	for len(r.rest) > 0 {
		switch r.rest[0] {
		case ' ', '\t', '\n', '\r':
			r.rest = r.rest[1:]
		default:
			return
		}
	}
}

// byte skips white space and expects a character.
func (r *jsonReader) byte(want byte) {
	if r.blanks(); len(r.rest) == 0 || r.rest[0] != want {
		r.unsure = true
		return
	}
	r.rest = r.rest[1:]
}

// quoted reads a string without escapes. The result is valid until the data is reused.
func (r *jsonReader) quoted() []byte {
	r.byte('"')
	wide := false
	for i, c := range r.rest {
		switch {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			r.unsure = r.unsure || wide && !utf8.Valid(text)
			return text
		case c == '\\' || c < ' ':
			r.unsure = true
			return nil
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	r.unsure = true
	return nil
}

func (r *jsonReader) text() string { return string(r.quoted()) }

// literal skips a word if it is next and complete.
func (r *jsonReader) literal(word string) bool {
	n := len(word)
	if len(r.rest) < n || string(r.rest[:n]) != word || len(r.rest) > n && !ends(r.rest[n]) {
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// ends reports whether a character may follow a number or a word.
func ends(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\n' || c == '\r'
}

func (r *jsonReader) bool() bool {
	r.blanks()
	if r.literal("true") {
		return true
	}
	r.unsure = r.unsure || !r.literal("false")
	return false
}

// uint64 reads a plain number of at most 18 digits, with or without quotes.
func (r *jsonReader) uint64() (v uint64) {
	const digitsMax = 18 // 19 digits may overflow
	r.blanks()
	var digits []byte
	if len(r.rest) > 0 && r.rest[0] == '"' {
		digits = r.quoted()
	} else {
		n := 0
		for n < len(r.rest) && !ends(r.rest[n]) {
			n++
		}
		digits, r.rest = r.rest[:n], r.rest[n:]
	}
	if len(digits) == 0 || len(digits) > digitsMax || digits[0] == '0' && len(digits) > 1 {
		r.unsure = true
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			r.unsure = true
		}
		v = v*10 + uint64(c-'0')
	}
	return v
}

func (r *jsonReader) mode() stintv1.Mode {
	r.blanks()
	if len(r.rest) == 0 || r.rest[0] != '"' {
		r.unsure = true
		return 0
	}
	mode, known := stintv1.Mode_value[string(r.quoted())]
	r.unsure = r.unsure || !known
	return stintv1.Mode(mode)
}
