package shard

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// Sealer makes the ids of holds and decisions that clients receive, and reads them when they come back. An id contains
// everything that a settlement needs: the counters, and the units taken from each. So nothing is stored for a decision
// that is never refunded, and a client can neither read nor forge an id. All nodes of a cluster have the same secrets;
// an id says which of them sealed it. A Sealer is immutable: any number of goroutines may use it.
type Sealer struct {
	secrets []sealingSecret // in ascending order of their numbers
	seals   *sealingSecret  // the one of new ids
}

// SealingSecret is one secret of a Sealer. Numbers begin at 1 and are not used again.
type SealingSecret struct {
	Number uint32
	Key    [32]byte
}

// sealingSecret is a secret with its derived keys.
type sealingSecret struct {
	number   uint32
	head     []byte // the beginning of an id
	aead     cipher.AEAD
	nonceKey [sha256.Size]byte
}

// An id begins with its format, one byte, and the number of its secret. They are authenticated with the rest, which is
// a nonce and the sealed text:
//
//	flags (1 byte) | namespace | decided at | retention | shard, epoch, seq, index; or home and id of the operation |
//	for each entry its flags (1 byte), policy, key, tier, cost; if it is inline the names of its limits; if limits have
//	counted it, and it is no hold, how many (1 byte) and the prints of their names (2 bytes each)
const handleFormat = 1

// NewSealer returns the Sealer of a cluster with these secrets, in the order of their numbers. New ids are sealed with
// the one of the number seals, which must be among them; the others only open.
func NewSealer(seals uint32, secrets ...SealingSecret) *Sealer {
	s := &Sealer{secrets: make([]sealingSecret, len(secrets))}
	for i := range secrets {
		s.secrets[i] = newSealingSecret(&secrets[i])
		if secrets[i].Number == seals {
			s.seals = &s.secrets[i]
		}
	}
	if s.seals == nil {
		panic(fmt.Sprintf("shard: none of %d secrets has the number %d, which seals", len(secrets), seals))
	}
	return s
}

func newSealingSecret(secret *SealingSecret) sealingSecret {
	key := derive(secret.Key[:], "stint handle: seal")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a valid length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // as above
	}
	head := binary.AppendUvarint([]byte{handleFormat}, uint64(secret.Number))
	return sealingSecret{number: secret.Number, head: head, aead: aead,
		nonceKey: derive(secret.Key[:], "stint handle: nonce")}
}

// derive makes a key for one purpose: HMAC-SHA-256 of the text that names it. The texts never change, since ids that
// were given out must open.
func derive(key []byte, text string) (derived [sha256.Size]byte) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	mac.Sum(derived[:0])
	return derived
}

// ID makes the id of the units that a request has taken. It returns "" if there is nothing to settle, as after a
// denial, even a counted one. A decision can be settled within the retention.
func (s *Sealer) ID(r *Request, d *Decision, retention limit.Span) string {
	if !d.Allowed || d.Index == 0 && d.Operation == nil {
		return ""
	}
	target := Target{Hold: r.Op == Reserve, DecidedAt: d.DecidedAt, Hashed: r.Hashed}
	if !target.Hold { // a hold is settled while it is open
		target.Retention = retention
	}
	if d.Operation != nil {
		target.Operation, target.Home = d.Operation.ID, d.Operation.Home
	} else {
		target.Position, target.Index = d.Position, d.Index
	}
	var few [8]LimitPrint // so that an id allocates nothing else
	c := MessageWriter(s.begin())
	target.code(&c, &r.Namespace)
	rest := d.Limits
	for i := range r.Entries {
		var entry Entry
		var took bool
		if entry, rest, took = takenEntry(r, i, rest, few[:0]); took {
			c.handleEntry(&entry)
		}
	}
	return s.end(c.Written())
}

// Seal makes the id of a hold or a counted decision. The entries come from Taken. Equal arguments give equal ids. An id
// is as long as the keys, plus about 100 characters.
func (s *Sealer) Seal(target Target, namespace string, entries []Entry) string {
	c := MessageWriter(s.begin())
	target.code(&c, &namespace)
	for i := range entries {
		c.handleEntry(&entries[i])
	}
	return s.end(c.Written())
}

// begin allocates room for an id. Every counted decision has one, so it is usually built in this one allocation and
// copied out once.
func (s *Sealer) begin() []byte { return append(make([]byte, 0, 384), s.seals.nonceKey[:]...) }

// end seals the text that was appended after begin.
func (s *Sealer) end(b []byte) string {
	by := s.seals
	// The nonce is a MAC with SHA-3 of the text after the key. So a nonce repeats only with the same text, even if the
	// place of a decision repeats: a cluster that was restored from a backup repeats the same places with other
	// decisions.
	nonce := sha3.Sum256(b)
	// The key was only needed for the nonce; the head of the id overwrites it.
	b = b[len(by.nonceKey)-len(by.head)-nonceSize:]
	number := copy(b, by.head)
	head := number + copy(b[number:], nonce[:nonceSize])
	sealed := by.aead.Seal(b[:head], b[number:head], b[head:], b[:number])
	return string(base64.RawURLEncoding.AppendEncode(sealed[len(sealed):], sealed))
}

// nonceSize is the nonce size of AES-GCM.
const nonceSize = 12

// code is what an id says before its entries.
func (t *Target) code(c *MessageCodec, namespace *string) {
	ofOperation := t.Operation != ""
	c.Flags(&t.Hold, &ofOperation, &t.Hashed) //mutant:id-forgets-the-key-form
	c.Text(namespace)
	codec.Int(&c.Codec, &t.DecidedAt)
	codec.Uint(&c.Codec, &t.Retention, math.MaxInt64)
	if !ofOperation {
		c.position(&t.Position)
		codec.Uint(&c.Codec, &t.Index, math.MaxUint32)
		return
	}
	c.slot(&t.Home)
	if c.Text(&t.Operation); t.Operation == "" {
		c.Fail()
	}
}

// handleEntry is an entry with what was taken. Of inline limits only the names are kept.
func (c *MessageCodec) handleEntry(e *Entry) {
	inline, counted := e.Limits != nil, len(e.Counted) > 0
	c.Flags(&inline, &counted)
	c.Text(&e.Policy, &e.Key, &e.Tier)
	c.Uint64(&e.Cost)
	if inline {
		n := c.Count(len(e.Limits))
		if c.Reading() {
			e.Limits = make([]policy.Limit, n) // a name has at least one byte
		}
		for i := range e.Limits {
			c.Text(&e.Limits[i].Name)
		}
	}
	if counted {
		c.counted(&e.Counted)
	}
	if counted && e.Counted == nil {
		c.Fail()
	}
}

// The errors of Open. Their messages follow the name of the field.
var (
	// ErrHandle means that a text is not an id of this cluster.
	ErrHandle = errors.New("is not an id that this cluster has given out: send it back as it was given")
	// ErrHandleDropped means that the secret that sealed an id was dropped, so the id cannot be read.
	ErrHandleDropped = errors.New("is sealed with a secret that the cluster has dropped, " +
		"and can no longer be settled: a hold ends by its on_expire; nothing was counted now")
	// ErrHandleNewer means that an id is sealed with a secret newer than all of the Sealer's.
	ErrHandleNewer = errors.New("is sealed with a secret that this node does not know yet; " +
		"nothing was settled; ask again")
)

// Open reads an id. It returns the start of a settlement: Op, Namespace and Entries, each with the taken units, and the
// Settlement's Target; its Hold distinguishes the two kinds of id. Of inline limits only the names are known. The error
// is ErrHandle, ErrHandleDropped or ErrHandleNewer.
func (s *Sealer) Open(text string) (Request, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return Request{}, ErrHandle
	}
	by, err := s.sealedBy(b)
	if err != nil {
		return Request{}, err
	}
	number := len(by.head)
	head := number + nonceSize
	plain, err := by.aead.Open(nil, b[number:head], b[head:], b[:number])
	if err != nil {
		return Request{}, ErrHandle
	}
	return decodeHandle(plain)
}

// sealedBy returns the secret named by an id. The id is long enough for a head and a nonce.
func (s *Sealer) sealedBy(b []byte) (*sealingSecret, error) {
	number, _ := binary.Uvarint(b[min(1, len(b)):])
	head := binary.AppendUvarint([]byte{handleFormat}, number)
	if !bytes.HasPrefix(b, head) || len(b) < len(head)+nonceSize || number == 0 || number > math.MaxUint32 {
		return nil, ErrHandle
	}
	for i := range s.secrets {
		if s.secrets[i].number == uint32(number) {
			return &s.secrets[i], nil
		}
	}
	if uint32(number) > s.secrets[len(s.secrets)-1].number {
		return nil, ErrHandleNewer //mutant:unknown-secret-is-wrong
	}
	return nil, ErrHandleDropped // numbers are given out in order
}

func decodeHandle(plain []byte) (Request, error) {
	c := MessageReader(string(plain))
	r := Request{Op: Settle, Settlement: &Settlement{}}
	r.Settlement.Target.code(&c, &r.Namespace)
	for c.Left() > 0 {
		var e Entry
		c.handleEntry(&e)
		r.Entries = append(r.Entries, e)
	}
	if c.Failed() {
		return Request{}, ErrHandle
	}
	return r, nil
}
