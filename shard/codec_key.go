package shard

import "encoding/binary"

// Keys of records are structured: each part but the last is preceded by its length, so that ("a_b", "c") and ("a", "b_c")
// are different counters (S11). The first byte is the kind of record. It is stored in logs and snapshots: append new
// kinds, never reuse one.
const (
	counterRecord  = 'k' // namespace, policy, key -> the states of the policy's limits
	answerRecord   = 'i' // namespace, idempotency id -> the answer
	sessionRecord  = 's' // epoch, seq, index -> what the session has counted
	documentRecord = 'd' // name -> version and body; only on the system shard
	adoptionRecord = 'a' // nothing -> version and text of the policies that the shard evaluates under

	legRecord           = 'l' // namespace, id of an operation -> this shard's charge for it
	rulingRecord        = 'o' // namespace, id of an operation -> the decision of this shard, its home
	sessionAnswerRecord = 'n' // epoch, seq, index, number -> the answer to that request of the session
	endRecord           = 'h' // name of a hold, or of a refunded decision -> how it ended, and the answer
	auditRecord         = 'u' // index in the ring -> a change that a person made
	auditHeadRecord     = 'U' // nothing -> how many changes were made
	restoreRecord       = 'r' // nothing -> when the shard was restored from a backup

	outboxRecord     = 'E' // nothing -> the figures of the outbox
	eventRecord      = 'e' // number -> an event that waits in the outbox
	deadLetterRecord = 'x' // index in the ring -> an event that sinks gave up
	pastEventRecord  = 'v' // index in the ring -> an event that nobody owes anything
	cooldownRecord   = 'c' // namespace, policy, key -> it has had a spike
	pushRecord       = 'p' // sink, period -> how far its bills were pushed
)

// appendCounterKey writes the key of a counter. The policy is the result of policyPart.
func appendCounterKey(b []byte, namespace, policy, key string) []byte {
	b = append(b, counterRecord)
	b = appendString(b, namespace)
	b = appendString(b, policy)
	return append(b, key...)
}

// policyPart returns the policy of an entry as it appears in its counter's key. Inline limits are counted separately from
// those of a policy of the same name: no policy has a name that begins with "~".
func policyPart(entry *Entry) string {
	if entry.Limits != nil {
		return "~" + entry.Policy
	}
	return entry.Policy
}

func appendAnswerKey(b []byte, namespace, id string) []byte {
	b = append(b, answerRecord)
	b = appendString(b, namespace)
	return append(b, id...)
}

// appendSessionAnswerKey writes the key of the answer to a session's request.
func appendSessionAnswerKey(b []byte, s Session, number uint64) []byte {
	b = appendPlace(append(b, sessionAnswerRecord), s.Epoch, s.Seq, s.Index)
	return binary.AppendUvarint(b, number)
}

func appendSessionKey(b []byte, s Session) []byte {
	return appendPlace(append(b, sessionRecord), s.Epoch, s.Seq, s.Index)
}

// appendPlace writes a place in the shard's log.
func appendPlace(b []byte, epoch, seq uint64, index uint32) []byte {
	b = binary.AppendUvarint(b, epoch)
	b = binary.AppendUvarint(b, seq)
	return binary.AppendUvarint(b, uint64(index))
}

func endKey(name string) string { return string(endRecord) + name }

// appendString writes s, preceded by its length.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
