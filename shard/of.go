package shard

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// ID numbers a shard from 0.
type ID uint32

// System is the shard that holds the documents of the cluster: its table and its policies. No key lives there.
const System ID = math.MaxUint32

// String names a shard as people know it.
func (id ID) String() string {
	if id == System {
		return "system"
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Of places a key: the hash of (namespace, tag), where tag is the text between the first "{" and the next "}" of the
// key if that is not empty (as Redis Cluster does), else the whole key. Never the policy: all limits of one key live
// together. The function is fixed for ever; its golden vectors are in the tests. (SEMANTICS X1.)
func Of(namespace, key string, shards uint32) ID {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(namespace)))
	h := xxhash.New()
	h.Write(length[:n])
	h.WriteString(namespace)
	h.WriteString(tagOf(key))
	return ID(h.Sum64() % uint64(shards))
}

func tagOf(key string) string {
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
