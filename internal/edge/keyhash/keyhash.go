package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// PartsMax is how many parts between slashes a hashed key may have: so many fit into 512 bytes.
const PartsMax = 21

// hashBytes is the length of a hash: 128 bits.
const hashBytes = 16

// ErrParts is the error of a key with too many parts. Its message follows the name of the field.
var ErrParts = fmt.Errorf("has more than %d parts between slashes, the most that a namespace whose keys are "+
	"hashed allows", PartsMax)

// Hasher hashes keys with the secret of a cluster.
type Hasher struct {
	secret [32]byte
	known  atomic.Pointer[map[string]*Namespace] // by name; nil before the first; replaced, never changed
}

// New returns the Hasher with a secret.
func New(secret [32]byte) *Hasher { return &Hasher{secret: secret} }

// In returns the Namespace with a name, always the same one. Each is kept for ever, so ask only for those in the
// policies.
func (h *Hasher) In(namespace string) *Namespace {
	for {
		known := h.known.Load()
		if known != nil {
			if n := (*known)[namespace]; n != nil {
				return n
			}
		}
		more := map[string]*Namespace{namespace: newNamespace(h.secret, namespace)}
		if known != nil {
			maps.Copy(more, *known)
		}
		h.known.CompareAndSwap(known, &more)
	}
}

// Namespace hashes the keys of one namespace.
type Namespace struct {
	macs sync.Pool // of *mac
}

// mac is an HMAC with the key of a namespace, and room for what it reads and writes. One call at a time uses it.
type mac struct {
	hash.Hash
	key  [512]byte // the plain key that is being hashed; cleared before another call gets the mac
	text [512]byte // its hash so far
	sum  [sha256.Size]byte
}

// newNamespace derives the key of a namespace. The derivation must never change: no stored key would be found again.
func newNamespace(secret [32]byte, namespace string) *Namespace {
	derived := hmac.New(sha256.New, secret[:])
	derived.Write([]byte("stint key: "))
	derived.Write([]byte(namespace))
	key := derived.Sum(nil)
	return &Namespace{macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key)} }}}
}

// Each hashed text begins with its kind: a tag is never equal to a part.
var (
	ofPart = []byte{'k'}
	ofTag  = []byte{'t'}
)

// Hash returns the hash of a valid key (shard.KeyProblem). The error is ErrParts.
func (n *Namespace) Hash(key string) (string, error) {
	m := n.macs.Get().(*mac)
	defer n.macs.Put(m)
	text := append(m.key[:0], key...)
	defer clear(text)
	tagFrom, tagTo := tagIn(key)
	b := m.text[:0]
	for parts, from := 1, 0; ; parts++ {
		if parts > PartsMax {
			return "", ErrParts
		}
		end := partEnd(key, from)
		if tagTo > 0 && tagTo >= from && tagTo < end {
			b = append(b, '{')
			b = m.append(b, ofTag, text[tagFrom:tagTo]) //mutant:tag-lost-in-the-hash
			b = append(b, '}')
		}
		b = m.append(b, ofPart, text[:end]) //mutant:parent-lost-in-the-hash
		if end == len(key) {
			return string(b), nil
		}
		b = append(b, '/')
		from = end + 1
	}
}

// append appends the hash of a text, as text: 22 characters. of is ofPart or ofTag.
func (m *mac) append(b, of, text []byte) []byte {
	m.Reset()
	m.Write(of)
	m.Write(text)
	return base64.RawURLEncoding.AppendEncode(b, m.Sum(m.sum[:0])[:hashBytes])
}

// partEnd returns the end of the part that begins at from: the next slash, unless that is the first byte of the key,
// before which there is no parent.
func partEnd(key string, from int) int {
	for i := max(from, 1); i < len(key); i++ {
		if key[i] == '/' {
			return i
		}
	}
	return len(key)
}

// tagIn returns the position of a key's tag, as defined by placement.Tag; 0, 0 if the key has none.
func tagIn(key string) (from, to int) {
	from = strings.IndexByte(key, '{') + 1
	if from == 0 {
		return 0, 0
	}
	length := strings.IndexByte(key[from:], '}')
	if length <= 0 {
		return 0, 0
	}
	return from, from + length
}

// Shown returns the hash that stands for a key to people who may not see it: 96 bits that reveal nothing about the key,
// its parts, or the hash under which it is counted. The secret may be one with another purpose; the hash changes with
// it.
func Shown(secret [32]byte, namespace, key string) string {
	derived := hmac.New(sha256.New, secret[:])
	derived.Write([]byte("stint shown key: "))
	derived.Write([]byte(namespace))
	m := hmac.New(sha256.New, derived.Sum(nil))
	m.Write([]byte(key))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:12])
}
