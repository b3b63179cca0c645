package placement

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
)

// secretBytes is the length of a Secret.
const secretBytes = 32

// Secret is random bytes known only to the nodes of a cluster. It reaches other nodes and their disks only in Secrets.
// Printing or logging it does not reveal it.
type Secret []byte

// RandomSecret draws a secret.
func RandomSecret() Secret {
	s := make(Secret, secretBytes)
	rand.Read(s)
	return s
}

// Key returns the secret as a key; ok is false if there is none.
func (s Secret) Key() (key [secretBytes]byte, ok bool) {
	return key, copy(key[:], s) == secretBytes
}

const hiddenSecret = "(secret)"

// Format implements fmt.Formatter. It hides the secret.
func (s Secret) Format(to fmt.State, _ rune) { io.WriteString(to, hiddenSecret) }

// LogValue implements slog.LogValuer. It hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }
