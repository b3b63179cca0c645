package placement

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
)

var validID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ValidID reports whether a node's id can be part of the names of replicas, of gossip and of certificates. An id is
// kept forever.
func ValidID(id string) bool { return validID.MatchString(id) }

// RandomID draws an id for a cluster, a node, or one life of a node.
func RandomID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
