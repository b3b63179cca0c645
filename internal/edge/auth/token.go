package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"
)

// The text of a token is "stint_", an id, "_", a secret of 256 bits and a CRC-32 of the text before it, in base62.
// Scanners for secrets find it by its prefix and check the sum offline, as with GitHub's tokens
// (https://github.blog/engineering/behind-githubs-new-authentication-token-formats/).
const (
	tokenPrefix   = "stint_"
	idLength      = 8
	secretLength  = 43 // 62^43 > 2^256
	sumLength     = 6  // 62^6 > 2^32
	idEnd         = len(tokenPrefix) + idLength
	TokenLength   = idEnd + len("_") + secretLength + sumLength
	secretBytes   = 32
	base62        = 62
	idBytesRandom = 8
)

// ID is the public part of a token, by which its record is found.
type ID [idLength]byte

// Hash is the SHA-256 of a token's text. A slow hash would add nothing: the secret is random.
type Hash [sha256.Size]byte

// NewToken makes a token from a source of random bytes. Its text is shown once, and only its hash is kept.
func NewToken(random io.Reader) (text string, err error) {
	var b [idBytesRandom + secretBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("auth: no random bytes: %w", err)
	}
	id := digits(b[:idBytesRandom], idLength)
	text = tokenPrefix + id + "_" + digits(b[idBytesRandom:], secretLength)
	return text + tokenSum(text), nil
}

// digits writes a number in base62, with leading zeros, truncated at the front.
func digits(number []byte, length int) string {
	text := new(big.Int).SetBytes(number).Text(base62)
	text = strings.Repeat("0", max(0, length-len(text))) + text
	return text[len(text)-length:]
}

// tokenSum returns the sum at the end of a token, of the text before it. It finds typing errors and proves nothing.
func tokenSum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	return digits([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, sumLength)
}

// ParseToken checks the form of a token and returns its id and hash. It does not check that the token exists.
func ParseToken(text string) (ID, Hash, error) {
	id, ok := idOf(text)
	if !ok || tokenSum(text[:TokenLength-sumLength]) != text[TokenLength-sumLength:] {
		return ID{}, Hash{}, errForm
	}
	return id, hashOf(text), nil
}

var errForm = errors.New("is no token: a token begins with stint_, and has 64 letters and digits with a sum at the end")

// idOf reads the id of a text with the length and the prefix of a token.
func idOf(text string) (id ID, ok bool) {
	if len(text) != TokenLength || text[:len(tokenPrefix)] != tokenPrefix || text[idEnd] != '_' {
		return id, false
	}
	copy(id[:], text[len(tokenPrefix):])
	return id, true
}

// hashOf hashes a text of TokenLength, without the heap.
func hashOf(text string) Hash {
	var b [TokenLength]byte
	copy(b[:], text)
	return sha256.Sum256(b[:])
}
