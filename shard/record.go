package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/table"
)

// Record is the value of one key of a shard: the encoded state of a policy's limits, an idempotency record, and so on.
// From ForgetAt on it no longer matters and is dropped; limit.Forever means never.
type Record = table.Record

// Put is one effect: the new absolute record of one key, or its removal.
type Put struct {
	Key    string // internal: made only by this package
	Record        // a nil Value removes the key
}

func (p *Put) code(c *MessageCodec) {
	c.Text(&p.Key)
	c.Bytes(&p.Value, c.Left())
	codec.Int(&c.Codec, &p.ForgetAt)
}

func recordCopy(key []byte, r Record) Put {
	return Put{Key: string(key), Record: Record{Value: append([]byte(nil), r.Value...), ForgetAt: r.ForgetAt}}
}

// recordFormat is the first byte of every record but a counter's: the format of its kind. All kinds have their first
// one; a kind that gets another has a constant of its own from then on.
const recordFormat = 1

// encodeRecord writes the record of a value: its format, and what code writes.
func encodeRecord(code func(*MessageCodec)) []byte {
	c := MessageWriter(append(make([]byte, 0, 256), recordFormat))
	code(&c)
	return c.Written()
}

// decodeRecord reads a record. The error names it as what.
func decodeRecord[T any](value []byte, what string, code func(*T, *MessageCodec)) (*T, error) {
	if len(value) > 0 && value[0] == recordFormat {
		c, v := MessageReader(string(value[1:])), new(T)
		if code(v, &c); c.Whole() {
			return v, nil
		}
	}
	return new(T), fmt.Errorf("shard: the record of %s is malformed or of an unknown format", what)
}

// codeTime is an instant of shard time.
func codeTime(c *codec.Codec, t *limit.Time) { codec.Uint(c, t, uint64(limit.MaxTime)) }

// bit is b as a number.
func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func bitOf(b bool) uint64 { return uint64(bit(b)) }
