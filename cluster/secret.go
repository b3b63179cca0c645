package cluster

import (
	"fmt"
	"io"
	"log/slog"
)

// secretBytes is how long a Secret is.
const secretBytes = 32

// Secret is what all nodes of a cluster know and nobody else: random bytes, drawn once. It goes to other nodes and to
// their disks with the table that holds it (Table.Encode), and nowhere else: printed or logged it does not show.
type Secret []byte

// Key is the secret as a key; ok is false if there is none.
func (s Secret) Key() (key [secretBytes]byte, ok bool) {
	return key, copy(key[:], s) == secretBytes
}

const hiddenSecret = "(secret)"

// Format implements fmt.Formatter.
func (s Secret) Format(to fmt.State, _ rune) { io.WriteString(to, hiddenSecret) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }
