package placement

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = "default"

// Of places a key among so many shards, numbered from 0: the hash of (namespace, tag), where tag is the text between the
// first "{" and the next "}" of the key if that is not empty (as Redis Cluster does), else the whole key. Never the
// policy: all limits of one key live together. The function is fixed for ever; its golden vectors are in the tests of
// package shard. (SEMANTICS X1.)
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

// Tag is the part of a key that decides where it lives.
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
