package placement

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = "default"

// Of returns the shard of a key, from 0 to shards-1. It hashes (namespace, tag), where tag is the text between the first
// "{" and the next "}" of the key if that is not empty (as in Redis Cluster), else the whole key. The policy is not part
// of the hash: all limits of one key are on one shard. The function is fixed forever; its golden vectors are in the tests
// of package shard. shards must not be 0. Of may be called concurrently. (X1.)
func Of(namespace, key string, shards uint32) uint32 {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(namespace)))
	var h xxhash.Digest
	h.Reset()
	h.Write(length[:n])
	h.WriteString(namespace)
	h.WriteString(Tag(key))
	return uint32(h.Sum64() % uint64(shards))
}

// Tag returns the part of a key that decides its shard.
func Tag(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if !found {
		return key
	}
	tag, _, closed := strings.Cut(rest, "}")
	if !closed || tag == "" {
		return key
	}
	return tag
}
