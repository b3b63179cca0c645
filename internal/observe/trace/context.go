package trace

import (
	"encoding/hex"
	"strings"

	"github.com/stint-io/stint/shard"
)

// Parse reads a traceparent header (W3C Trace Context): version, trace id, span id and flags in lowercase hex, with
// dashes between. ok is false if it is not valid; such a header must be ignored. A later version may have more after
// the flags.
func Parse(header string) (parent shard.TraceContext, sampled, ok bool) {
	const version, id, span, flags, end = 0, 3, 36, 53, 55
	if len(header) < end || header[id-1] != '-' || header[span-1] != '-' || header[flags-1] != '-' {
		return parent, false, false
	}
	if header[:2] == "ff" || header[:2] == "00" && len(header) != end || len(header) > end && header[end] != '-' {
		return parent, false, false
	}
	var bits, ignored [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{ignored[:], header[version : id-1]}, {parent.ID[:], header[id : span-1]},
		{parent.Span[:], header[span : flags-1]}, {bits[:], header[flags:end]}} {
		if !readHex(part.to, part.text) {
			return shard.TraceContext{}, false, false
		}
	}
	if parent.ID == [16]byte{} || parent.Span == [8]byte{} {
		return shard.TraceContext{}, false, false
	}
	return parent, bits[0]&1 != 0, true
}

// readHex reads lowercase hex.
func readHex(to []byte, text string) bool {
	_, err := hex.Decode(to, []byte(text))
	return err == nil && text == strings.ToLower(text)
}
