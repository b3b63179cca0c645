package placement

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-io/stint/shard"
)

// SecretsDocument is the name of the document that holds Secrets. It is not part of the table, which is visible to
// nodes and people that must not know the secrets.
const SecretsDocument = "secrets"

// SealingOpens is how long a secret opens ids after the last node has stopped sealing with it: the longest life of a
// hold. A longer idempotency_retention of a policy does not extend it.
const SealingOpens = time.Duration(shard.MaxHoldTTL) * time.Microsecond

// sealingMost bounds the number of secrets that a cluster has at a time, and so the document's size.
const sealingMost = 64

// Secrets are known only to the nodes of a cluster, and sent only to nodes that the table lists. It is a document of
// the system shard, replaced by compare-and-set only, and is never changed once it was handed on.
//
// A rotation adds a secret. It seals when every listed node has written it to disk, so that each opens the ids of all
// others. When every listed node has written that down as well, none seals with the former one any longer: it opens for
// SealingOpens, and is dropped then, or earlier by an operator.
type Secrets struct {
	// Sealing are the secrets that seal the ids of holds and decisions, by number. The last one is never dropped.
	Sealing []SealingSecret
	Seals   uint32 `json:",omitempty"` // number of the one that seals; 0 means the first
	// Keys hashes keys in namespaces that require it. It is drawn when the first namespace does, and never changes: all
	// counts of these namespaces are under its hashes. Empty until then.
	Keys Secret `json:",omitempty"`
}

// SealingSecret is one secret. Its number is not used again.
type SealingSecret struct {
	Number uint32
	Key    Secret
	Made   int64 `json:",omitempty"` // when, in Unix microseconds; 0 if with the cluster
	// Ends is when it is dropped, in Unix microseconds; 0 while it seals, will seal, or may still seal.
	Ends int64 `json:",omitempty"`
}

// NewSecrets returns the first version.
func NewSecrets(s Secret) *Secrets { return &Secrets{Sealing: []SealingSecret{{Number: 1, Key: s}}} }

// secretBytes is the length of a Secret.
const secretBytes = 32

// Encode writes the secrets as JSON. Equal secrets have equal bytes.
func (s *Secrets) Encode() []byte { return encode(s) }

// DecodeSecrets reads the output of Encode. Unknown fields are ignored: a newer version may have added them.
func DecodeSecrets(b []byte) (*Secrets, error) {
	var s Secrets
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, errors.New("secrets: they are not JSON of secrets") // the cause might show a part of them
	}
	if len(s.Sealing) == 0 {
		return nil, errors.New("secrets: there is none to seal with")
	}
	for i, one := range s.Sealing {
		if _, ok := one.Key.Key(); !ok || len(one.Key) != secretBytes {
			return nil, fmt.Errorf("secrets: number %d has %d bytes, not %d", one.Number, len(one.Key), secretBytes)
		}
		if one.Number == 0 || i > 0 && s.Sealing[i-1].Number >= one.Number {
			return nil, fmt.Errorf("secrets: number %d is not in order", one.Number)
		}
	}
	if n := len(s.Keys); n != 0 && n != secretBytes {
		return nil, fmt.Errorf("secrets: that of keys has %d bytes, not %d", n, secretBytes)
	}
	if !slices.ContainsFunc(s.Sealing, func(one SealingSecret) bool { return one.Number == s.SealsWith() }) {
		return nil, fmt.Errorf("secrets: number %d is to seal and is not there", s.Seals)
	}
	return &s, nil
}

// SealsWith returns the number of the sealing secret.
func (s *Secrets) SealsWith() uint32 {
	if s.Seals == 0 {
		return s.Sealing[0].Number
	}
	return s.Seals
}

// Sealer makes and reads ids with these secrets.
func (s *Secrets) Sealer() *shard.Sealer {
	all := make([]shard.SealingSecret, len(s.Sealing))
	for i, one := range s.Sealing {
		all[i].Number = one.Number
		all[i].Key, _ = one.Key.Key()
	}
	return shard.NewSealer(s.SealsWith(), all...)
}

// Waiting returns the number of the secret that will seal when all nodes know it, or 0.
func (s *Secrets) Waiting() uint32 {
	if newest := s.Sealing[len(s.Sealing)-1].Number; newest != s.SealsWith() {
		return newest
	}
	return 0
}

// Settled reports whether no node seals with a secret other than the one that seals, or waits to.
func (s *Secrets) Settled() bool {
	return s.Waiting() == 0 && !slices.ContainsFunc(s.Sealing, func(one SealingSecret) bool {
		return one.Number != s.SealsWith() && one.Ends == 0
	})
}

func (s *Secrets) clone() *Secrets {
	//mutant:restored-cluster-changes-key-secret
	return &Secrets{Sealing: slices.Clone(s.Sealing), Seals: s.Seals, Keys: s.Keys}
}

// WithKeySecret returns the secrets with a secret for hashing keys, or nil if they have one already.
func (s *Secrets) WithKeySecret(key Secret) *Secrets {
	//mutant:key-secret-drawn-twice 3
	if len(s.Keys) > 0 {
		return nil
	}
	next := s.clone()
	next.Keys = key
	return next
}

// add appends a secret that does not seal yet, and writes into Seals which one does. s must not be handed on yet.
func (s *Secrets) add(key Secret, now time.Time) (number uint32) {
	number = s.Sealing[len(s.Sealing)-1].Number + 1
	s.Sealing, s.Seals = append(s.Sealing, SealingSecret{Number: number, Key: key, Made: now.UnixMicro()}),
		s.SealsWith()
	return number
}

// The refusals of ApplyRotation and ApplyDrop.
var (
	ErrRotating    = errors.New("a rotation is under way: not all nodes seal with the newest secret yet")
	ErrManySecrets = fmt.Errorf("the cluster has %d sealing secrets already: drop the old ones, or wait until they end",
		sealingMost)
	ErrOneSecret = errors.New("the cluster has one sealing secret: rotate it, then drop the old one")
)

// ApplyRotation returns the secrets with one more, and its number. It waits for the nodes to know it.
func (s *Secrets) ApplyRotation(key Secret, now time.Time) (next *Secrets, number uint32, err error) {
	switch {
	case !s.Settled():
		return nil, 0, ErrRotating
	case len(s.Sealing) >= sealingMost:
		return nil, 0, ErrManySecrets
	}
	next = s.clone()
	return next, next.add(key, now), nil
}

// ApplyDrop returns the secrets with the sealing one alone, and the numbers of the dropped ones. It refuses as long as
// a node may seal with one of those.
func (s *Secrets) ApplyDrop() (next *Secrets, dropped []uint32, err error) {
	switch {
	//mutant:sealing-secret-dropped 2
	case !s.Settled():
		return nil, nil, ErrRotating
	case len(s.Sealing) == 1:
		return nil, nil, ErrOneSecret
	}
	next = &Secrets{Seals: s.SealsWith(), Keys: s.Keys} //mutant:dropped-secrets-take-the-keys
	for _, one := range s.Sealing {
		if one.Number == s.SealsWith() { //mutant:dropped-secret-opens
			next.Sealing = append(next.Sealing, one)
		} else {
			dropped = append(dropped, one.Number)
		}
	}
	return next, dropped, nil
}

// AfterRestore returns the secrets of a cluster that is restored from a backup with these. A new one seals, since the
// lost cluster, and everyone with access to the backup, know the others. Those open the ids in the backup, for
// SealingOpens from now.
func (s *Secrets) AfterRestore(key Secret, now time.Time) *Secrets {
	next := s.clone()
	next.Seals = next.add(key, now) //mutant:restored-cluster-seals-as-before
	next.end(now)
	return next
}

// end sets the end of the secrets that no longer seal. Seals must not be 0: that would end all of them.
func (s *Secrets) end(now time.Time) (ended []uint32) {
	for i := range s.Sealing {
		if one := &s.Sealing[i]; one.Number != s.Seals && one.Ends == 0 {
			one.Ends = now.Add(SealingOpens).UnixMicro()
			ended = append(ended, one.Number)
		}
	}
	return ended
}

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
