package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/stint-io/stint/shard"
)

// hintsFormat is the first byte of encoded hints. Hints live only as long as processes, so a reader ignores formats
// that it does not know.
const hintsFormat = 1

// hintBytesMin is the shortest encoded hint: a shard, an epoch and a node of one byte.
const hintBytesMin = 4

var errHintsCut = errors.New("hints: the message is cut short or malformed")

// encodeHints returns
//
//	format byte, cluster text, count uvarint, count x { shard uvarint, epoch uvarint, node text }
//
// where a text is its length as a uvarint, followed by its bytes.
func encodeHints(cluster string, hints []Hint) []byte {
	b := appendText([]byte{hintsFormat}, cluster)
	b = binary.AppendUvarint(b, uint64(len(hints)))
	for _, hint := range hints {
		b = binary.AppendUvarint(b, uint64(hint.Shard))
		b = binary.AppendUvarint(b, hint.Epoch)
		b = appendText(b, hint.Node)
	}
	return b
}

// decodeHints reads the output of encodeHints. The result does not refer to b, and takes at most a small multiple of
// its size.
func decodeHints(b []byte) (cluster string, hints []Hint, err error) {
	if len(b) == 0 || b[0] != hintsFormat {
		return "", nil, errors.New("hints: unknown format")
	}
	cluster, b, ok := cutText(b[1:])
	if !ok {
		return "", nil, errHintsCut
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b))/hintBytesMin {
		return "", nil, errHintsCut
	}
	b = b[n:]
	hints = make([]Hint, count)
	for i := range hints {
		if hints[i], b, err = cutHint(b); err != nil {
			return "", nil, err
		}
	}
	if len(b) > 0 {
		return "", nil, fmt.Errorf("hints: %d bytes too many", len(b))
	}
	return cluster, hints, nil
}

func cutHint(b []byte) (hint Hint, rest []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 || id > math.MaxUint32 {
		return Hint{}, nil, errHintsCut
	}
	epoch, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return Hint{}, nil, errHintsCut
	}
	node, rest, ok := cutText(b[n+m:])
	if !ok || node == "" {
		return Hint{}, nil, errHintsCut
	}
	return Hint{Shard: shard.ID(id), Epoch: epoch, Node: node}, rest, nil
}
