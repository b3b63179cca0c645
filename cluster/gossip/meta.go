package gossip

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"

	"github.com/stint-io/stint/shard/codec"
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

// encode returns the meta of a node: what it announces about itself to all others. It is {format byte, flags byte,
// cluster, peer address, API address, zone, version, expected nodes uvarint, formation}, each text as its length and
// its bytes. Id and gossip address travel separately, as memberlist's. encode fails if the meta is longer than
// memberlist carries, because memberlist would panic.
func (m *Member) encode() ([]byte, error) {
	for _, text := range m.texts() {
		if !isText(*text) {
			return nil, fmt.Errorf("gossip: %.80q is longer than %d bytes or not plain text", *text, textBytesMax)
		}
	}
	if m.Expect < 0 || m.Expect > expectMax {
		return nil, fmt.Errorf("bootstrap-expect: %d is not between 0 and %d", m.Expect, expectMax)
	}
	f := m.Formation
	if f != nil {
		if err := f.check(m.Cluster); err != nil {
			return nil, err
		}
	}
	c := codec.Writer([]byte{metaFormat,
		flagIf(m.State == MemberLeft, metaLeaving) | flagIf(f != nil, metaForming) | flagIf(f != nil && f.Go, metaGo)})
	m.code(&c)
	b := c.Written()
	switch {
	case len(b) <= memberlist.MetaMaxSize:
		return b, nil
	case f != nil:
		return nil, fmt.Errorf("gossip: addresses, zone, version and the ids of %d founders need %d bytes together, "+
			"more than %d: shorten the node ids, the zone or the advertised host, "+
			"or found the cluster with fewer nodes and have the others join", len(f.Founders), len(b),
			memberlist.MetaMaxSize)
	}
	return nil, fmt.Errorf("gossip: addresses, zone and version need %d bytes together, more than %d: "+
		"shorten the zone or the advertised host", len(b), memberlist.MetaMaxSize)
}

var errMetaCut = errors.New("gossip: the announcement is cut short or malformed")

// decodeMeta reads the output of encode, and the known part of later formats.
func decodeMeta(b []byte) (Member, error) {
	if len(b) < 2 || b[0] == 0 {
		return Member{}, errors.New("gossip: the announcement is not that of a stint node")
	}
	flags := b[1]
	m := Member{State: MemberAlive}
	if flags&metaLeaving != 0 {
		m.State = MemberLeft
	}
	if flags&metaForming != 0 {
		m.Formation = &Formation{Go: flags&metaGo != 0}
	}
	c := codec.Reader(string(b[2:]))
	if m.code(&c); c.Failed() {
		return Member{}, errMetaCut
	}
	if f := m.Formation; f != nil {
		f.Cluster = m.Cluster
		if err := f.check(m.Cluster); err != nil {
			return Member{}, err
		}
	}
	if b[0] <= metaFormat && !c.Whole() {
		return Member{}, fmt.Errorf("gossip: the announcement has %d bytes too many", c.Left())
	}
	return m, nil
}

// texts lists the texts in their order.
func (m *Member) texts() []*string {
	return []*string{&m.Cluster, &m.PeerAddr, &m.APIAddr, &m.Zone, &m.Version}
}

// code is one pass over what follows the flags.
func (m *Member) code(c *codec.Codec) {
	for _, text := range m.texts() {
		codeText(c, text)
	}
	codec.Uint(c, &m.Expect, expectMax)
	if m.Formation != nil {
		m.Formation.code(c)
	}
}

// codeText is a text. A reader takes none that isText rejects, and makes a copy.
func codeText(c *codec.Codec, text *string) {
	c.Text(text)
	if c.Reading() {
		if !isText(*text) {
			c.Fail()
		}
		*text = strings.Clone(*text)
	}
}

// isText rejects text that is too long or would garble a log or a terminal.
func isText(text string) bool {
	return len(text) <= textBytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// flagIf returns bit if b is true, else 0.
func flagIf(b bool, bit byte) byte {
	if b {
		return bit
	}
	return 0
}
