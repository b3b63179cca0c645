package placement

import (
	"encoding/json"
	"errors"
	"fmt"
)

// SecretsDocument is the name of the document that holds Secrets, from shard.LevelTrust on; below, the table carries its only
// secret. It is a document of its own so that the table can be shown to nodes and people that must not know it.
const SecretsDocument = "secrets"

// Secrets is what all nodes of a cluster know and nobody else does. Only nodes that the table lists hear it. It is a document of
// the system shard, replaced by compare-and-set only, and is never changed once it was handed on.
type Secrets struct {
	// Sealing are the secrets that ids of holds and decisions are sealed with, the oldest first: there is one. Ids do not say
	// which secret sealed them.
	Sealing []SealingSecret
}

// SealingSecret is one secret. Its number is not used again.
type SealingSecret struct {
	Number uint32
	Key    Secret
}

// NewSecrets returns the first version.
func NewSecrets(s Secret) *Secrets { return &Secrets{Sealing: []SealingSecret{{Number: 1, Key: s}}} }

// Encode writes the secrets as JSON. Equal secrets have equal bytes.
func (s *Secrets) Encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("cluster: secrets that cannot be written: %v", err)) // they hold only bytes and numbers
	}
	return b
}

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
	return &s, nil
}

// Seals returns the secret that ids are sealed with.
func (s *Secrets) Seals() Secret { return s.Sealing[0].Key }
