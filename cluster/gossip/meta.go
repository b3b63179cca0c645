package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"
)

// metaFormat is the first byte of a node's meta. Later formats may only append fields: a reader takes the fields that
// it knows, so that nodes of two versions see each other during a rolling upgrade.
const metaFormat = 1

const (
	metaLeaving = 1 << iota // about to stop on purpose
	metaForming             // a formation follows at the end
	metaGo                  // the formation's founders have received go
)

// expectMax bounds the number of nodes that found a cluster together.
const expectMax = 1 << 16

// textBytesMax bounds each text in gossip. Host names have at most 253 bytes, and a port follows.
const textBytesMax = 260

// meta is what a node announces about itself to all others. Its id travels separately, as memberlist's name of the
// node.
type meta struct {
	leaving  bool
	cluster  string // "" if in no cluster yet
	peerAddr string
	apiAddr  string
	zone     string
	version  string

	expect    int        // number of nodes to found a cluster with; 0 if it only joins
	formation *Formation // of cluster; may be nil
}

// encode returns {format byte, flags byte, cluster, peer address, API address, zone, version, expected nodes uvarint,
// formation}, each text as its length and its bytes. It fails if that is more than memberlist carries, because
// memberlist would panic.
func (m *meta) encode() ([]byte, error) {
	f := m.formation
	b := []byte{metaFormat, flagIf(m.leaving, metaLeaving) | flagIf(f != nil, metaForming) | flagIf(f != nil && f.Go, metaGo)}
	for _, text := range []string{m.cluster, m.peerAddr, m.apiAddr, m.zone, m.version} {
		if !isText(text) {
			return nil, fmt.Errorf("gossip: %.80q is longer than %d bytes or not plain text", text, textBytesMax)
		}
		b = appendText(b, text)
	}
	if m.expect < 0 || m.expect > expectMax {
		return nil, fmt.Errorf("bootstrap-expect: %d is not between 0 and %d", m.expect, expectMax)
	}
	b = binary.AppendUvarint(b, uint64(m.expect))
	if f != nil {
		if err := f.check(m.cluster); err != nil {
			return nil, err
		}
		b = appendFormation(b, f)
	}
	switch {
	case len(b) <= memberlist.MetaMaxSize:
		return b, nil
	case f != nil:
		return nil, fmt.Errorf("gossip: addresses, zone, version and the ids of %d founders need %d bytes together, more "+
			"than %d: shorten the node ids, the zone or the advertised host, or found the cluster with fewer nodes and "+
			"have the others join", len(f.Founders), len(b), memberlist.MetaMaxSize)
	}
	return nil, fmt.Errorf("gossip: addresses, zone and version need %d bytes together, more than %d: "+
		"shorten the zone or the advertised host", len(b), memberlist.MetaMaxSize)
}

var errMetaCut = errors.New("gossip: the announcement is cut short or malformed")

// decodeMeta reads the output of encode, and the known part of later formats.
func decodeMeta(b []byte) (meta, error) {
	if len(b) < 2 || b[0] == 0 {
		return meta{}, errors.New("gossip: the announcement is not that of a stint node")
	}
	format, flags, m := b[0], b[1], meta{leaving: b[1]&metaLeaving != 0}
	b = b[2:]
	for _, field := range []*string{&m.cluster, &m.peerAddr, &m.apiAddr, &m.zone, &m.version} {
		text, rest, ok := cutText(b)
		if !ok {
			return meta{}, errMetaCut
		}
		*field, b = text, rest
	}
	b, err := m.cutFounding(b, flags)
	if err != nil {
		return meta{}, err
	}
	if format <= metaFormat && len(b) > 0 {
		return meta{}, fmt.Errorf("gossip: the announcement has %d bytes too many", len(b))
	}
	return m, nil
}

// cutFounding reads the number of expected nodes and the formation from the front of b.
func (m *meta) cutFounding(b []byte, flags byte) (rest []byte, err error) {
	expect, n := binary.Uvarint(b)
	if n <= 0 || expect > expectMax {
		return nil, errMetaCut
	}
	m.expect, b = int(expect), b[n:]
	if flags&metaForming == 0 {
		return b, nil
	}
	f := &Formation{Cluster: m.cluster, Go: flags&metaGo != 0}
	if b, err = cutFormation(b, f); err != nil {
		return nil, err
	}
	m.formation = f
	return b, f.check(m.cluster)
}

// cutText reads the output of appendText from the front of b.
func cutText(b []byte) (text string, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > textBytesMax || size > uint64(len(b)-n) {
		return "", nil, false
	}
	end := n + int(size)
	text = string(b[n:end])
	return text, b[end:], isText(text)
}

// isText rejects text that is too long or would garble a log or a terminal.
func isText(text string) bool {
	return len(text) <= textBytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// flagIf returns bit if b is true, else 0.
func flagIf(b bool, bit byte) byte {
	if b {
		return bit
	}
	return 0
}
