package shard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Sealer makes the ids of holds and decisions that clients are given, and reads them when they come back. An id says
// all that a settlement must know: which counters, and how many units were taken from each. So nothing is kept for a
// decision that nobody refunds, and a client can neither read an id nor make one. Every node of a cluster has the same
// secret. A Sealer is read only: any number of goroutines may use it.
type Sealer struct {
	aead         cipher.AEAD
	inner, outer [sha256.BlockSize]byte // the key of nonces as HMAC (RFC 2104) puts it before the text, and before its hash
}

// handleFormat is the first byte of an id, and is authenticated with the rest. What follows is a nonce and the sealed
// text:
//
//	flags (1 byte) | namespace | decided at | shard or home | epoch, seq, index; or the operation's id |
//	for each entry inline (1 byte), policy, key, tier, cost, and if it is inline the names of its limits
const handleFormat = 1

// The bits of the flags.
const (
	handleOfHold = 1 << iota
	handleOfOperation
)

// NewSealer makes the Sealer of a cluster.
func NewSealer(secret [32]byte) *Sealer {
	key := derive(secret[:], "stint handle: seal")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has one of the lengths
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // as above
	}
	s := &Sealer{aead: aead}
	nonceKey := derive(secret[:], "stint handle: nonce")
	copy(s.inner[:], nonceKey[:])
	copy(s.outer[:], nonceKey[:])
	for i := range s.inner {
		s.inner[i] ^= 0x36
		s.outer[i] ^= 0x5c
	}
	return s
}

func derive(key []byte, text string) (derived [sha256.Size]byte) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	mac.Sum(derived[:0])
	return derived
}

// Seal makes the id of a hold or a counted decision. The entries are those of its request, each with the units that
// were taken: of a Partial those that were granted. The same arguments give the same id. It is as long as the keys, and
// about 100 characters.
func (s *Sealer) Seal(target Target, namespace string, entries []Entry) string {
	b := make([]byte, len(s.inner), len(s.inner)+handleSize(target, namespace, entries)+s.aead.Overhead())
	copy(b, s.inner[:])
	b = appendHandle(b, target, namespace, entries)
	hash := s.nonceHash(b)
	// The key has done its work: the end of its place is the head of the id, and the text is sealed where it stands.
	text, nonceAt := b[len(s.inner):], len(s.inner)-s.aead.NonceSize()
	nonce := b[nonceAt:len(s.inner)]
	copy(nonce, hash[:])
	b = b[nonceAt-1 : len(s.inner)]
	b[0] = handleFormat
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(b, nonce, text, b[:1]))
}

// nonceHash is the HMAC-SHA256 of a text that has the inner key before it. A nonce is made of the text itself, so it
// comes twice only with the same text, whatever names the place of a decision: a cluster that was restored from a backup
// goes through the same places again, with other decisions. The package of that name allocates six times, and every
// decision has an id.
func (s *Sealer) nonceHash(keyed []byte) [sha256.Size]byte {
	var b [sha256.BlockSize + sha256.Size]byte
	copy(b[:], s.outer[:])
	hash := sha256.Sum256(keyed)
	copy(b[sha256.BlockSize:], hash[:])
	return sha256.Sum256(b[:])
}

func handleSize(target Target, namespace string, entries []Entry) int {
	size := 64 + len(namespace) + len(target.Operation)
	for i := range entries {
		size += 16 + len(entries[i].Policy) + len(entries[i].Key) + len(entries[i].Tier)
		for j := range entries[i].Limits {
			size += 2 + len(entries[i].Limits[j].Name)
		}
	}
	return size
}

func appendHandle(b []byte, target Target, namespace string, entries []Entry) []byte {
	b = append(b, bit(target.Hold)*handleOfHold|bit(target.Operation != "")*handleOfOperation)
	b = appendString(b, namespace)
	b = binary.AppendVarint(b, int64(target.DecidedAt))
	if target.Operation != "" {
		b = binary.AppendUvarint(b, uint64(target.Home))
		b = appendString(b, target.Operation)
	} else {
		b = binary.AppendUvarint(b, uint64(target.Position.Shard))
		b = binary.AppendUvarint(b, target.Position.Epoch)
		b = binary.AppendUvarint(b, target.Position.Seq)
		b = binary.AppendUvarint(b, uint64(target.Index))
	}
	for i := range entries {
		b = appendHandleEntry(b, &entries[i])
	}
	return b
}

func appendHandleEntry(b []byte, e *Entry) []byte {
	b = append(b, bit(e.Limits != nil))
	b = appendString(b, e.Policy)
	b = appendString(b, e.Key)
	b = appendString(b, e.Tier)
	b = binary.AppendUvarint(b, e.Cost)
	if e.Limits != nil {
		b = binary.AppendUvarint(b, uint64(len(e.Limits)))
		for i := range e.Limits {
			b = appendString(b, e.Limits[i].Name)
		}
	}
	return b
}

// ErrHandle says that a text is no id of this cluster. It is to be read behind the name of the field in which it came.
var ErrHandle = errors.New("is not an id that this cluster has given out: send it back as it was given")

// Open reads an id. It gives the settlement that is still to be completed: Op, Namespace and Entries, each with what
// was taken, and the Settlement's Target, whose Hold says which of the two kinds of id it was. Of inline limits only the
// names are known. The error is ErrHandle.
func (s *Sealer) Open(text string) (Request, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	head := 1 + s.aead.NonceSize()
	if err != nil || strings.ContainsAny(text, "\r\n") || len(b) < head || b[0] != handleFormat {
		return Request{}, ErrHandle
	}
	plain, err := s.aead.Open(nil, b[1:head], b[head:], b[:1])
	if err != nil {
		return Request{}, ErrHandle
	}
	return decodeHandle(plain)
}

func decodeHandle(plain []byte) (Request, error) {
	in := reader{rest: plain}
	flags := in.byte()
	r := Request{Op: Settle, Namespace: in.string()}
	target := Target{Hold: flags&handleOfHold != 0, DecidedAt: limit.Time(in.varint())}
	if flags&handleOfOperation != 0 {
		target.Home = ID(in.uvarint())
		target.Operation = in.string()
	} else {
		target.Position = Position{ID(in.uvarint()), in.uvarint(), in.uvarint()}
		target.Index = uint32(in.uvarint())
	}
	for len(in.rest) > 0 && !in.failed {
		r.Entries = append(r.Entries, in.handleEntry())
	}
	if in.failed || flags > handleOfHold|handleOfOperation || (flags&handleOfOperation != 0) != (target.Operation != "") {
		return Request{}, ErrHandle
	}
	r.Settlement = &Settlement{Target: target}
	return r, nil
}

func (r *reader) handleEntry() Entry {
	inline := r.byte()
	e := Entry{Policy: r.string(), Key: r.string(), Tier: r.string(), Cost: r.uvarint()}
	if inline == 0 {
		return e
	}
	count := r.uvarint()
	if inline != 1 || count > uint64(len(r.rest)) { // a name has at least a byte: refuse before making room for it
		r.failed = true
		return Entry{}
	}
	e.Limits = make([]policy.Limit, count)
	for i := range e.Limits {
		e.Limits[i].Name = r.string()
	}
	return e
}
