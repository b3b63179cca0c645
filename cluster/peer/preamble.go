package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// Every connection to a peer port begins with these bytes:
//
//	dialer    magic 4 | version 1 | length 2 | kind 1 | shard 4 | cluster | from | to     each text: length 2, bytes
//	acceptor  magic 4 | refusal 1 | length 1 | detail                                     refusal 0: welcome
//
// Numbers are big endian. Nothing else is read from a connection before the acceptor has found the preamble to be
// right, and the dialer the reply to be a welcome. Both ends read exactly these bytes and none of the following ones.
// Every version begins with magic, version and length. The version covers everything that the connection carries: a
// node that speaks two versions dials again with the older one when it is refused.
const (
	preambleMagic   = "stnt"
	preambleVersion = 1
	maxPreamble     = 1024 // bytes after the length
	maxDetail       = 255
)

// connKind says what a connection carries after its preamble.
type connKind byte

const (
	kindRaft connKind = 1 // the Raft stream between two replicas of one shard
	kindHop  connKind = 2 // forwarded requests of any shard, from node to node
	kindAsk  connKind = 3 // questions and reports, from node to node
)

// preamble names the two ends of a connection and its purpose.
type preamble struct {
	kind     connKind
	shard    shard.ID // 0 except for Raft
	cluster  string
	from, to string // replica names for Raft, else node names
}

var (
	errNotAPeer          = errors.New("it does not begin as a stint peer does")
	errMalformedPreamble = errors.New("its preamble is malformed")
)

func (p *preamble) encode() ([]byte, error) {
	body := []byte{byte(p.kind)}
	body = binary.BigEndian.AppendUint32(body, uint32(p.shard))
	for _, text := range []string{p.cluster, p.from, p.to} {
		body = binary.BigEndian.AppendUint16(body, uint16(min(len(text), maxPreamble)))
		body = append(body, text...)
	}
	if len(body) > maxPreamble {
		return nil, fmt.Errorf("cluster: the names %q and %q in cluster %q are too long for a preamble of %d bytes",
			p.from, p.to, p.cluster, maxPreamble)
	}
	head := append([]byte(preambleMagic), preambleVersion)
	head = binary.BigEndian.AppendUint16(head, uint16(len(body)))
	return append(head, body...), nil
}

// readPreamble reads one preamble and not a byte more. If the error is a Refusal, the dialer is to be told; after any
// other error the connection is closed without a reply.
func readPreamble(in io.Reader) (preamble, error) {
	var head [len(preambleMagic) + 3]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return preamble{}, err
	}
	rest, ours := strings.CutPrefix(string(head[:]), preambleMagic)
	if !ours {
		return preamble{}, errNotAPeer
	}
	length := binary.BigEndian.Uint16([]byte(rest[1:]))
	if length > maxPreamble {
		return preamble{}, errMalformedPreamble
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return preamble{}, err
	}
	if rest[0] != preambleVersion {
		return preamble{}, WrongVersion
	}
	return decodePreamble(body)
}

func decodePreamble(body []byte) (p preamble, err error) {
	if len(body) < 5 {
		return preamble{}, errMalformedPreamble
	}
	p.kind, p.shard, body = connKind(body[0]), shard.ID(binary.BigEndian.Uint32(body[1:])), body[5:]
	for _, text := range []*string{&p.cluster, &p.from, &p.to} {
		if len(body) < 2 {
			return preamble{}, errMalformedPreamble
		}
		length := int(binary.BigEndian.Uint16(body))
		if length == 0 || length > len(body)-2 {
			return preamble{}, errMalformedPreamble
		}
		*text, body = string(body[2:2+length]), body[2+length:]
	}
	if len(body) != 0 || p.kind < kindRaft || p.kind > kindAsk || (p.kind != kindRaft && p.shard != 0) {
		return preamble{}, errMalformedPreamble
	}
	return p, nil
}

// nodes returns the ids of the two nodes. It refuses replica names that are not of the preamble's shard.
func (p *preamble) nodes() (from, to string, err error) {
	if p.kind != kindRaft {
		return p.from, p.to, nil
	}
	sender, fromShard, err := placement.ParseName(p.from)
	if err != nil {
		return "", "", err
	}
	receiver, toShard, err := placement.ParseName(p.to)
	if err != nil {
		return "", "", err
	}
	if fromShard != p.shard || toShard != p.shard {
		return "", "", errMalformedPreamble
	}
	return sender.Node, receiver.Node, nil
}
