package shard

import "encoding/binary"

// Keys of records are structured: each part but the last is preceded by its length, so that ("a_b", "c") and
// ("a", "b_c") are different counters (SEMANTICS S11). The first byte says what the record is.
const (
	counterRecord = 'k' // namespace, policy, key -> the states of the policy's limits
	answerRecord  = 'i' // namespace, idempotency id -> the answer that was given
)

func appendCounterKey(b []byte, namespace, policy, key string) []byte {
	b = append(b, counterRecord)
	b = appendString(b, namespace)
	b = appendString(b, policy)
	return append(b, key...)
}

func appendAnswerKey(b []byte, namespace, id string) []byte {
	b = append(b, answerRecord)
	b = appendString(b, namespace)
	return append(b, id...)
}

// appendString writes s with its length before it.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
