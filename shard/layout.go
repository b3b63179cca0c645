package shard

import (
	"strings"

	"github.com/stint-io/stint/shard/slot"
	"github.com/stint-io/stint/shard/table"
)

// Record is the value of one key of a shard: the encoded state of a policy's limits, an idempotency record, and so on.
// From ForgetAt on it no longer matters and is dropped; limit.Forever means never.
type Record = table.Record

// keyLayout is the layout of a shard's keys in its table. There is a part for each slot, and one more, the last, for
// the records that belong to no slot.
type keyLayout struct{}

// Parts implements table.Layout.
func (keyLayout) Parts() int { return slot.Count + 1 }

// Part implements table.Layout.
func (keyLayout) Part(key string) int {
	if key == "" {
		return slot.Count
	}
	at, ok := 1, true
	switch key[0] {
	case counterRecord, cooldownRecord:
		if _, at, ok = stringAt(key, at); ok {
			_, at, ok = stringAt(key, at)
		}
	case answerRecord, legRecord, rulingRecord:
		_, at, ok = stringAt(key, at)
	case endRecord:
	default:
		return slot.Count
	}
	if !ok || len(key) < at+slotBytes { // memory failed
		return slot.Count
	}
	return min(int(key[at])<<8|int(key[at+1]), slot.Count)
}

// Head implements table.Layout: the policy of a counter is a part of the head, and for other records the namespace. The
// label of inline limits is not: clients choose it, and it is often a part of the key.
func (keyLayout) Head(key string) int {
	namespace, policy := headOf(key)
	if policy == 0 || strings.HasPrefix(key[namespace+1:], InlinePolicy) {
		return namespace
	}
	return policy
}
