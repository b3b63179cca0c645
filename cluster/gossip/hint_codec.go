package gossip

import (
	"errors"
	"math"

	"github.com/stint-io/stint/shard/codec"
)

// hintsFormat is the first byte of encoded hints. Hints live only as long as processes, so a reader ignores formats
// that it does not know.
const hintsFormat = 1

var errHintsCut = errors.New("hints: the message is cut short or malformed")

// encodeHints returns
//
//	format byte, cluster text, count uvarint, count x { shard uvarint, epoch uvarint, node text }
//
// where a text is its length as a uvarint, followed by its bytes.
func encodeHints(cluster string, hints []Hint) []byte {
	c := codec.Writer([]byte{hintsFormat})
	codeHints(&c, &cluster, &hints)
	return c.Written()
}

// decodeHints reads the output of encodeHints. The result does not refer to b, and takes at most a small multiple of
// its size.
func decodeHints(b []byte) (cluster string, hints []Hint, err error) {
	if len(b) == 0 || b[0] != hintsFormat {
		return "", nil, errors.New("hints: unknown format")
	}
	c := codec.Reader(string(b[1:]))
	if codeHints(&c, &cluster, &hints); !c.Whole() {
		return "", nil, errHintsCut
	}
	return cluster, hints, nil
}

// codeHints is one pass over what follows the format.
func codeHints(c *codec.Codec, cluster *string, hints *[]Hint) {
	codeText(c, cluster)
	codec.List(c, hints, math.MaxInt, func(h *Hint) {
		codec.Uint(c, &h.Shard, math.MaxUint32)
		c.Uint64(&h.Epoch)
		if codeText(c, &h.Node); h.Node == "" {
			c.Fail()
		}
	})
}
