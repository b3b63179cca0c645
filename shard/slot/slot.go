package slot

import (
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Count is the number of slots, the same in every cluster.
const Count = 1024

// ID is the number of a slot, from 0 to Count-1.
type ID uint16

// DefaultNamespace is the namespace of a request that names none.
const DefaultNamespace = "default"

// Of returns the slot of a key. It hashes (namespace, tag), where tag is the text between the first "{" and the next
// "}" of the key if that is not empty (as in Redis Cluster), else the whole key. The policy is not part of the hash:
// all limits of one key are in one slot. The function is fixed forever; its golden vectors are in the tests of package
// shard. Of may be called concurrently. (X1.)
func Of(namespace, key string) ID {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(namespace)))
	var h xxhash.Digest
	h.Reset()
	h.Write(length[:n])
	h.WriteString(namespace)
	h.WriteString(Tag(key))
	return ID(h.Sum64() % Count)
}

// Tag returns the part of a key that decides its slot.
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
