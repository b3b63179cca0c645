package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// secretPrefix begins the text of a signing secret, by Standard Webhooks.
const secretPrefix = "whsec_"

// secretBytes is the size of a new secret. Standard Webhooks asks for 24 to 64 bytes.
const secretBytes = 32

// Secret signs messages, or is the key of a receiver's API. Its text forms do not show it.
type Secret struct {
	Key  []byte // of a webhook: for HMAC-SHA256; otherwise the API key, as sent
	Made int64  // in Unix microseconds
	Ends int64  `json:",omitempty"` // likewise: a replaced secret signs until then; 0 for the newest
}

// NewSecret draws a secret for signatures.
func NewSecret(random io.Reader, now time.Time) (Secret, error) {
	s := Secret{Key: make([]byte, secretBytes), Made: now.UnixMicro()}
	_, err := io.ReadFull(random, s.Key)
	return s, err
}

// Text returns the secret in the form that its receiver configures. It is shown once.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.Key) }

// String implements fmt.Stringer.
func (s Secret) String() string { return "(a secret)" }

// Format implements fmt.Formatter: no verb shows the secret.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Signature returns the value of the header webhook-signature: one signature for each secret, so that a receiver that
// knows only one of two accepts it. The timestamp is in Unix seconds.
func Signature(secrets []Secret, id string, timestamp int64, body []byte) string {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		sum := hmac.New(sha256.New, s.Key)
		io.WriteString(sum, id+"."+strconv.FormatInt(timestamp, 10)+".")
		sum.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	}
	return strings.Join(all, " ")
}
