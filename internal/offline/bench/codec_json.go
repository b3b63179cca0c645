package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// jsonCodec writes and reads Connect's JSON.
type jsonCodec struct{ one template }

func newJSONCodec(p Plan) jsonCodec {
	text := []byte{'{'}
	if p.Namespace != "" {
		text = append(text, `"namespace":`+quote(p.Namespace)+`,`...)
	}
	text = append(text, `"entries":[`...)
	var holes []int
	for i := range p.Entries {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, `{"policy":`+quote(p.Policy)+`,"key":`...)
		key := p.entryKey(0, i)
		text = append(text, quote(key)...)
		behind := len(key) - p.digitsAt() // JSON escaping does not change that part
		holes = append(holes, len(text)-1-behind)
		if p.Cost != 1 {
			text = append(text, `,"cost":"`+strconv.FormatUint(p.Cost, 10)+`"`...)
		}
		if p.Tier != "" {
			text = append(text, `,"tier":`+quote(p.Tier)...)
		}
		text = append(text, '}')
	}
	return jsonCodec{template{append(text, `]}`...), holes}}
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return string(quoted)
}

func (c jsonCodec) contentType() string { return "application/json" }

func (c jsonCodec) appendBody(dst []byte, keys []uint32) []byte {
	if len(keys) == 1 {
		return c.one.appendTo(dst, keys[0])
	}
	dst = append(dst, `{"checks":[`...)
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.one.appendTo(dst, key)
	}
	return append(dst, `]}`...)
}

// readFates finds the decisions in the text without decoding them: a decision's first field is "allowed", which may be left
// out when it is false. A full decoder would cost the generator more than the rest of the call. A failure is rare and
// contains texts, so it is decoded in full.
func (c jsonCodec) readFates(body []byte, fates []fate) error {
	rest := body
	for i := range fates {
		object, failure, ok := nextResult(rest)
		if !ok {
			return unreadable(body, i, len(fates))
		}
		fates[i] = decisionFate(object)
		if failure {
			fates[i] = failureFate(object)
		}
		rest = object
	}
	return nil
}

func unreadable(body []byte, found, asked int) *callError {
	message := fmt.Sprintf("%d results in an answer to %d checks: %.200q", found, asked, body)
	return &callError{code: "unreadable", message: message, fate: unknown}
}

// nextResult finds the next `"decision": {` or `"failure": {` and returns the text from the brace on.
func nextResult(text []byte) (object []byte, failure, ok bool) {
	for {
		failure = false
		at, name := bytes.Index(text, decisionName), decisionName
		before := text
		if at >= 0 {
			before = text[:at]
		}
		if f := bytes.Index(before, failureName); f >= 0 {
			at, name, failure = f, failureName, true
		}
		if at < 0 {
			return nil, false, false
		}
		text = text[at+len(name):]
		if object, ok := objectOf(text); ok {
			return object, failure, true
		}
	}
}

var decisionName, failureName = []byte(`"decision"`), []byte(`"failure"`)

// objectOf skips ` : `, which follows the name of a field, but not a text that happens to look like one. It returns the text
// from the object's brace on.
func objectOf(text []byte) ([]byte, bool) {
	text, ok := bytes.CutPrefix(trimSpace(text), []byte(":"))
	text = trimSpace(text)
	return text, ok && bytes.HasPrefix(text, []byte("{"))
}

func decisionFate(object []byte) fate {
	value, ok := bytes.CutPrefix(trimSpace(object[1:]), []byte(`"allowed"`))
	if !ok {
		return denied
	}
	value, _ = bytes.CutPrefix(trimSpace(value), []byte(":"))
	if bytes.HasPrefix(trimSpace(value), []byte("true")) {
		return allowed
	}
	return denied
}

// failureFate decodes the object at the start of the text. A failure that cannot be decoded may have been counted.
func failureFate(text []byte) fate {
	var failure struct{ MaybeApplied bool }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&failure); err != nil || failure.MaybeApplied {
		return unknown
	}
	return failed
}

func trimSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }
