package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"
)

// metaFormat is the first byte of a node's meta. Later formats may only append fields: a reader takes what it knows of
// them, so that nodes of two versions see each other during a rolling upgrade.
const metaFormat = 1

// metaLeaving marks a node that is about to stop on purpose.
const metaLeaving = 1 << 0

// textBytesMax bounds each text in gossip. Host names have at most 253 bytes, and a port follows.
const textBytesMax = 260

// meta is what a node tells about itself to all others. Its id travels beside it, as memberlist's name of the node.
type meta struct {
	leaving  bool
	cluster  string // "": in no cluster yet
	peerAddr string
	apiAddr  string
	zone     string
	version  string
}

// encode writes {format byte, flags byte, cluster, peer address, api address, zone, version}, each text as its length
// and its bytes. It fails if that is more than memberlist carries: memberlist would panic.
func (m *meta) encode() ([]byte, error) {
	var flags byte
	if m.leaving {
		flags |= metaLeaving
	}
	b := []byte{metaFormat, flags}
	for _, text := range []string{m.cluster, m.peerAddr, m.apiAddr, m.zone, m.version} {
		if !isText(text) {
			return nil, fmt.Errorf("gossip: %.80q is longer than %d bytes or not plain text", text, textBytesMax)
		}
		b = appendText(b, text)
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("gossip: addresses, zone and version need %d bytes together, more than %d: "+
			"shorten the zone or the advertised host", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

// decodeMeta reads what encode wrote, and the known part of later formats.
func decodeMeta(b []byte) (meta, error) {
	if len(b) < 2 || b[0] < metaFormat {
		return meta{}, errors.New("gossip: the announcement is not that of a stint node")
	}
	format, m := b[0], meta{leaving: b[1]&metaLeaving != 0}
	b = b[2:]
	for _, field := range []*string{&m.cluster, &m.peerAddr, &m.apiAddr, &m.zone, &m.version} {
		text, rest, ok := cutText(b)
		if !ok {
			return meta{}, errors.New("gossip: the announcement is cut short or malformed")
		}
		*field, b = text, rest
	}
	if format == metaFormat && len(b) > 0 {
		return meta{}, fmt.Errorf("gossip: the announcement has %d bytes too many", len(b))
	}
	return m, nil
}

// cutText takes what appendText wrote from the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > textBytesMax || size > uint64(len(b)-n) {
		return "", nil, false
	}
	end := n + int(size)
	text = string(b[n:end])
	return text, b[end:], isText(text)
}

// isText keeps out what would garble a log or a terminal.
func isText(text string) bool {
	return len(text) <= textBytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
