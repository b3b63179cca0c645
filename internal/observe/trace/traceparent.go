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
	version, rest, _ := strings.Cut(header, "-")
	id, rest, _ := strings.Cut(rest, "-")
	span, rest, _ := strings.Cut(rest, "-")
	flags, _, more := strings.Cut(rest, "-")
	var number, bits [1]byte
	if !readHex(number[:], version) || !readHex(parent.ID[:], id) || !readHex(parent.Span[:], span) ||
		!readHex(bits[:], flags) || number[0] == 0xff || number[0] == 0 && more ||
		parent.ID == [16]byte{} || parent.Span == [8]byte{} {
		return shard.TraceContext{}, false, false
	}
	return parent, bits[0]&1 != 0, true
}

// readHex reads lowercase hex that fills to.
func readHex(to []byte, text string) bool {
	if len(text) != hex.EncodedLen(len(to)) || text != strings.ToLower(text) {
		return false
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}
