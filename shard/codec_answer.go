package shard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

// encodeAnswer writes the record of an id: format, fingerprint, parents, then the decision. Its statuses name their
// entry by its index: every request with this id contains it. The parents of a policy may be others by then, so they
// are named.
func encodeAnswer(r *Request, d *Decision) []byte {
	c := MessageWriter(binary.LittleEndian.AppendUint64([]byte{recordFormat}, Fingerprint(r)))
	parents := r.Entries[len(r.own()):]
	c.parents(&parents)
	c.names = r.Entries
	c.part(d)
	return c.Written()
}

func (c *MessageCodec) parents(parents *[]Entry) {
	codec.List(&c.Codec, parents, c.Left(), func(e *Entry) { c.Text(&e.Policy, &e.Key) })
}

// bit is b as a number.
func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeAnswer reads the record of an id for a request with that id. sameRequest is false if the id was used for
// another request; then there is no decision.
func decodeAnswer(value []byte, r *Request) (d Decision, sameRequest bool, err error) {
	c := MessageReader(string(value))
	var format byte
	var print uint64
	codec.Byte(&c.Codec, &format)
	if c.Fixed64(&print); format != recordFormat {
		return Decision{}, false, errors.New("shard: idempotency record of an unknown format")
	}
	if !r.isOf(print) {
		return Decision{}, false, nil
	}
	var parents []Entry
	c.parents(&parents)
	c.names = slices.Concat(r.own(), parents)
	if c.part(&d); !c.Whole() || c.alien {
		return Decision{}, false, errors.New("shard: idempotency record is malformed")
	}
	d.Replayed = true
	return d, true, nil
}

// timeOfUUIDv7 returns the time in an id, if the id is a UUID of version 7 (RFC 9562, section 5.7: the first 48 bits
// are milliseconds since the Unix epoch).
func timeOfUUIDv7(id string) (limit.Time, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || id[14] != '7' {
		return 0, false
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || raw[8]>>6 != 2 {
		return 0, false
	}
	return limit.Time(binary.BigEndian.Uint64(raw)>>16) * 1000, true
}
