package api

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// envoyText is the path to the text of headers: RateLimitRequest.descriptors, RateLimitDescriptor.entries, Entry.key
// and value.
var envoyText = [][]protowire.Number{{2}, {1}, {1, 2}}

// cleanText replaces bytes that are not UTF-8 by "!" in the text at the end of the path, in place: the length stays. It
// leaves malformed messages unchanged.
func cleanText(data []byte, way [][]protowire.Number) {
	if len(way) == 0 {
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				data[i] = '!'
			}
			i += size
		}
		return
	}
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return
		}
		if kind == protowire.BytesType && slices.Contains(way[0], number) {
			inside, _ := protowire.ConsumeBytes(data[tag:])
			cleanText(inside, way[1:])
		}
		data = data[tag+size:]
	}
}
