package api

import (
	"bytes"
	"slices"
	"unicode/utf8"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// unmarshalProto reads a message. An Envoy before 1.22.10, 1.23.7, 1.24.5 or 1.25.4 sends the bytes of a header as they
// are, UTF-8 or not, and would let the request pass if that were an error (CVE-2023-27488). Later versions send "!" in
// place of an invalid byte; the same is done here, so that both count one key.
func unmarshalProto(data []byte, m proto.Message) error {
	err := proto.Unmarshal(data, m)
	if _, envoy := m.(*rlsv3.RateLimitRequest); envoy && err != nil { //mutant:not-text-passes-envoy
		data = bytes.Clone(data)
		cleanText(data, envoyText)
		return proto.Unmarshal(data, m)
	}
	return err
}

// envoyText is the path to the text of headers: RateLimitRequest.descriptors, RateLimitDescriptor.entries, Entry.key
// and value.
var envoyText = [][]protowire.Number{{2}, {1}, {1, 2}}

// cleanText replaces bytes that are not UTF-8 in the text at the end of the path. It leaves malformed messages
// unchanged.
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
