package bench

import "google.golang.org/protobuf/encoding/protowire"

// wireCodec writes and reads protobuf messages by field number, for the binary protocols. The numbers are those of
// api/stint/v1: they are part of the wire contract and never change.
type wireCodec struct {
	one     template // a CheckRequest
	inBatch template // the same as an element of a CheckBatchRequest
}

func newWireCodec(p Plan) wireCodec {
	check := template{}
	if p.Namespace != "" {
		check.text = appendText(check.text, 1, p.Namespace)
	}
	for i := range p.Entries {
		entry, hole := wireEntry(p, i)
		check.text = appendText(check.text, 2, string(entry))
		check.holes = append(check.holes, len(check.text)-len(entry)+hole)
	}
	return wireCodec{check, check.moved(appendText(nil, 1, string(check.text)))}
}

func wireEntry(p Plan, i int) (entry []byte, hole int) {
	key := p.entryKey(0, i)
	entry = appendText(entry, 1, p.Policy)
	entry = appendText(entry, 2, key)
	hole = len(entry) - len(key) + p.digitsAt()
	if p.Cost != 1 {
		entry = protowire.AppendTag(entry, 3, protowire.VarintType)
		entry = protowire.AppendVarint(entry, p.Cost)
	}
	if p.Tier != "" {
		entry = appendText(entry, 4, p.Tier)
	}
	return entry, hole
}

func appendText(dst []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), text)
}

func (c wireCodec) contentType() string { return "application/proto" }

func (c wireCodec) appendBody(dst []byte, keys []uint32) []byte {
	if len(keys) == 1 {
		return c.one.appendTo(dst, keys[0])
	}
	return c.appendBatch(dst, keys)
}

// appendBatch writes a CheckBatchRequest, even for one check.
func (c wireCodec) appendBatch(dst []byte, keys []uint32) []byte {
	for _, key := range keys {
		dst = c.inBatch.appendTo(dst, key)
	}
	return dst
}

// readFates reads a CheckResponse (field 1 is its decision) or, for more than one check, a CheckBatchResponse.
func (c wireCodec) readFates(body []byte, fates []fate) error {
	return readWire(body, fates, len(fates) > 1)
}

// readBatch reads a CheckBatchResponse, even for one check: field 1 is a result, whose field 1 is a decision and whose field
// 2 is a failure.
func (c wireCodec) readBatch(body []byte, fates []fate) error { return readWire(body, fates, true) }

func readWire(body []byte, fates []fate, batch bool) error {
	rest := body
	for i := range fates {
		message, _, after, ok := nextMessage(rest)
		if !ok {
			return unreadable(body, i, len(fates))
		}
		field := protowire.Number(1)
		if batch {
			message, field, _, ok = nextMessage(message)
		}
		if !ok {
			return unreadable(body, i, len(fates))
		}
		fates[i] = wireFate(message, field)
		rest = after
	}
	return nil
}

func wireFate(message []byte, field protowire.Number) fate {
	const decision, allowedField, maybeAppliedField = 1, 1, 3
	switch {
	case field == decision && flag(message, allowedField):
		return allowed
	case field == decision:
		return denied
	case flag(message, maybeAppliedField):
		return unknown
	}
	return failed
}

// nextMessage reads the next field, which must be a message or text.
func nextMessage(b []byte) (message []byte, field protowire.Number, after []byte, ok bool) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || kind != protowire.BytesType {
		return nil, 0, nil, false
	}
	message, length := protowire.ConsumeBytes(b[n:])
	if length < 0 {
		return nil, 0, nil, false
	}
	return message, field, b[n+length:], true
}

// flag reports whether a message holds a boolean field that is true.
func flag(message []byte, want protowire.Number) bool {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if field == want && kind == protowire.VarintType {
			value, n := protowire.ConsumeVarint(message)
			return n > 0 && value != 0
		}
		if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
			return false
		}
		message = message[n:]
	}
	return false
}
