package shard

import (
	"math"
	"strconv"

	"github.com/stint-io/stint/shard/slot"
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

// Of returns the shard of a key, by the slots of the cluster's table.
func Of(slots *slot.Map, namespace, key string) ID { return ID(slots.Of(namespace, key)) }
