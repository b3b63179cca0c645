package shard

import (
	"encoding/binary"
	"strings"

	"github.com/stint-io/stint/shard/slot"
)

// Keys of records are structured: each part but the last is preceded by its length, so that ("a_b", "c") and ("a",
// "b_c") are different counters (S11). The first byte is the kind of record. It is stored in logs and snapshots: append
// new kinds, never reuse one.
//
// A record about keys belongs to a slot, which is a part of its key (appendSlot): the slot of the key, or of the first
// key of a request in the order of slots (Request.Slot).
const (
	counterRecord  = 'k' // namespace, policy, slot, key -> the states of the policy's limits
	answerRecord   = 'i' // namespace, slot, idempotency id -> the answer
	sessionRecord  = 's' // epoch, seq, index -> the counted numbers of the session
	documentRecord = 'd' // name -> version and body; only on the system shard
	adoptionRecord = 'a' // nothing -> version and text of the policies in force on the shard

	legRecord           = 'l' // namespace, slot, id of an operation -> the slot's charge for it
	rulingRecord        = 'o' // namespace, slot, id of an operation -> the decision of this slot, its home
	sessionAnswerRecord = 'n' // epoch, seq, index, number -> the answer to that request of the session
	endRecord           = 'h' // slot, name of a hold, or of a refunded decision -> how it ended, and the answer
	auditRecord         = 'u' // index in the ring -> a change by hand
	auditHeadRecord     = 'U' // nothing -> the number of changes made
	restoreRecord       = 'r' // nothing -> when the shard was restored from a backup

	outboxRecord     = 'E' // nothing -> the figures of the outbox
	eventRecord      = 'e' // number -> an event that waits in the outbox
	deadLetterRecord = 'x' // index in the ring -> an event that sinks gave up
	pastEventRecord  = 'v' // index in the ring -> an event without a waiting sink
	cooldownRecord   = 'c' // namespace, policy, slot, key -> it has had a spike
	pushRecord       = 'p' // sink, period -> how far its bills were pushed
	slotRecord       = 'S' // slot -> its status, if it ever took part in a move; the record belongs to no slot itself
)

// appendCounterKey writes the key of a counter. The policy is the result of policyPart.
func appendCounterKey(b []byte, namespace, policy, key string) []byte {
	return appendKeyOf(b, counterRecord, namespace, policy, key)
}

// appendKeyOf writes the key of a record about one key under a policy.
func appendKeyOf(b []byte, kind byte, namespace, policy, key string) []byte {
	b = appendString(append(b, kind), namespace)
	b = appendString(b, policy)
	return append(appendSlot(b, slot.Of(namespace, key)), key...)
}

// appendSlot writes a slot. It follows the common beginning of many keys, and so is not part of a head (keyLayout).
func appendSlot(b []byte, at slot.ID) []byte { return binary.BigEndian.AppendUint16(b, uint16(at)) }

const slotBytes = 2

// slotBefore reads the slot in a key written by appendKeyOf, from the length of the name that follows it.
func slotBefore(key []byte, name int) slot.ID {
	return slot.ID(binary.BigEndian.Uint16(key[len(key)-name-slotBytes:]))
}

// readKeyOf reads the parts of a key written by appendKeyOf. ok is false if it is not such a key: memory failed.
func readKeyOf[K string | []byte](key K) (namespace, policy, name K, ok bool) {
	namespace, end, ok := stringAt(key, 1)
	if ok {
		policy, end, ok = stringAt(key, end)
	}
	if !ok || end+slotBytes > len(key) {
		return namespace, policy, name, false
	}
	return namespace, policy, key[end+slotBytes:], true
}

// headOf returns where the namespace in a key ends, and of a counter's key where the policy after it does; 0 for what
// the key does not have.
func headOf(key string) (namespace, policy int) {
	if key == "" {
		return 0, 0
	}
	switch key[0] {
	case counterRecord, answerRecord, legRecord, rulingRecord:
		_, namespace, _ = stringAt(key, 1)
	}
	if namespace > 0 && key[0] == counterRecord {
		_, policy, _ = stringAt(key, namespace)
	}
	return namespace, policy
}

// policyPart returns the policy of an entry as it appears in its counter's key. Inline limits are counted separately
// from those of a policy of the same name: no policy has a name that begins with "~".
func policyPart(entry *Entry) string {
	if entry.Limits != nil {
		return "~" + entry.Policy
	}
	return entry.Policy
}

// policyOfKey returns the name of the policy in the key of a counter's record.
func policyOfKey(key string) string {
	_, name, _, _ := readKeyOf(key)
	return name
}

func appendAnswerKey(b []byte, namespace string, at slot.ID, id string) []byte {
	return appendIDKey(b, answerRecord, namespace, at, id)
}

// appendIDKey writes the key of a record about a request that has an id.
func appendIDKey(b []byte, kind byte, namespace string, at slot.ID, id string) []byte {
	return append(appendSlot(appendString(append(b, kind), namespace), at), id...)
}

// readIDKey reads the parts of a key written by appendIDKey.
func readIDKey(key string) (namespace string, at slot.ID, id string) {
	namespace, end, ok := stringAt(key, 1)
	if !ok || len(key) < end+slotBytes {
		return "", 0, ""
	}
	id = key[end+slotBytes:]
	return namespace, slotBefore([]byte(key), len(id)), id
}

// appendSessionAnswerKey writes the key of the answer to a session's request.
func appendSessionAnswerKey(b []byte, s Session, number uint64) []byte {
	return appendNumbers(append(b, sessionAnswerRecord), s.Epoch, s.Seq, uint64(s.Index), number)
}

func appendSessionKey(b []byte, s Session) []byte {
	return appendNumbers(append(b, sessionRecord), s.Epoch, s.Seq, uint64(s.Index))
}

// appendNumbers writes numbers, each the shorter the smaller.
func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func endKey(at slot.ID, name string) string { return string(appendSlot([]byte{endRecord}, at)) + name }

// appendString writes s, preceded by its length.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// stringAt returns the text written by appendString at a position of a key, and the position after it. ok is false if
// there is none.
func stringAt[K string | []byte](key K, at int) (s K, end int, ok bool) {
	length, shift := 0, 0
	for ; at < len(key) && shift <= 14; shift += 7 {
		b := key[at]
		at++
		length |= int(b&0x7f) << shift
		if b < 0x80 {
			if end = at + length; end > len(key) {
				break
			}
			return key[at:end], end, true
		}
	}
	return s, 0, false
}

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
