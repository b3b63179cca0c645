package shard

import (
	"math"
	"strconv"

	"github.com/stint-io/stint/shard/placement"
)

// ID is the number of a shard, counted from 0.
type ID uint32

// System is the shard that holds the documents of the cluster: its table and its policies. It has no keys.
const System ID = math.MaxUint32

// String returns the shard's display name.
func (id ID) String() string {
	if id == System {
		return "system"
	}
	return strconv.FormatUint(uint64(id), 10)
}

// Of returns the shard of a key: see placement.Of.
func Of(namespace, key string, shards uint32) ID { return ID(placement.Of(namespace, key, shards)) }
