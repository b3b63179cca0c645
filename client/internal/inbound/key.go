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
	keyMost  = 512             // bytes of a key that the server accepts
	sumBytes = 2 * sha256.Size // in hexadecimal
)

// Key makes a key of text that a client may have chosen. Two texts have the same key only if their SHA-256 is the same.
func Key(text string) (string, error) {
	if text == "" {
		return "", errors.New("the key is empty")
	}
	if !utf8.ValidString(text) {
		return "", errors.New("the key is no UTF-8")
	}
	return bounded(escape(text)), nil
}

// Part is a named part of a key.
type Part[R any] struct {
	Name  string
	Value func(R) (string, error)
}

// CheckParts panics if an entry has no parts, or one without a value or a name of its own; what names the caller. Such
// a key could be that of different clients.
func CheckParts[R any](what, policy string, parts []Part[R]) {
	names := map[string]bool{"": true}
	for _, part := range parts {
		if names[part.Name] || part.Value == nil {
			panic(fmt.Sprintf("%s: policy %s: each part of a key has a name of its own, and a value", what, policy))
		}
		names[part.Name] = true
	}
	if len(parts) == 0 {
		panic(fmt.Sprintf("%s: policy %s: the key has no parts", what, policy))
	}
}

// keyOf makes a key of parts, as in "route=login|user=ann". In parts a "/" is escaped, too: text before it would be the
// key of a parent, which no client may name. The clients in other languages make the same keys.
func keyOf[R any](parts []Part[R], r R) (string, error) {
	var b strings.Builder
	for i, part := range parts {
		text, err := part.Value(r)
		if err == nil && (text == "" || !utf8.ValidString(text)) {
			err = errors.New("is empty or no UTF-8")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", part.Name, err)
		}
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(escapePart(part.Name) + "=" + escapePart(text))
	}
	return bounded(b.String()), nil
}

func escapePart(text string) string { return strings.ReplaceAll(escape(text), "/", "%2F") }

// bounded shortens an escaped key. The shortened form differs from every other key: in parts, the last bar is followed
// by "=".
func bounded(escaped string) string {
	if len(escaped) <= keyMost {
		return escaped
	}
	cut := keyMost - sumBytes - 1
	for !utf8.RuneStart(escaped[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(escaped[cut:]))
	return escaped[:cut] + "|" + hex.EncodeToString(sum[:])
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
