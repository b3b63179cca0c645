package shard

import "fmt"

// encodeRecord writes the record of a value: its format in one byte, and what code writes.
func encodeRecord(format byte, code func(*MessageCodec)) []byte {
	c := MessageWriter(append(make([]byte, 0, 256), format))
	code(&c)
	return c.Written()
}

// decodeRecord reads a record of a format. The error names it as what.
func decodeRecord(value []byte, format byte, what string, code func(*MessageCodec)) error {
	if len(value) > 0 && value[0] == format {
		c := MessageReader(string(value[1:]))
		if code(&c); c.Whole() {
			return nil
		}
	}
	return fmt.Errorf("shard: the record of %s is malformed or of an unknown format", what)
}
