package shard

import (
	"math"
	"strconv"

	"github.com/stint-io/stint/shard/placement"
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

// Of places a key: see placement.Of.
func Of(namespace, key string, shards uint32) ID { return ID(placement.Of(namespace, key, shards)) }
