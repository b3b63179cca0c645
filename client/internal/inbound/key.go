package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	keyMost  = 512 // bytes of a key that the server takes
	sumBytes = 2 * sha256.Size
)

// Key makes a key of text that a stranger may have chosen. Two texts have one key only if their SHA-256 is the same.
func Key(text string) (string, error) {
	if text == "" {
		return "", errors.New("the key is empty")
	}
	if !utf8.ValidString(text) {
		return "", errors.New("the key is no UTF-8")
	}
	escaped := escape(text)
	if len(escaped) <= keyMost {
		return escaped, nil
	}
	cut := keyMost - sumBytes - 1
	for !utf8.RuneStart(escaped[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(escaped[cut:]))
	return escaped[:cut] + "|" + hex.EncodeToString(sum[:]), nil // no escaped text has a bar
}

// escape percent-encodes the characters that have a meaning in keys, and controls.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("%{}|=", r) || r < ' ' || r >= 0x7f && r < 0xa0 {
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
