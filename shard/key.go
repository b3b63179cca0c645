package shard

import "encoding/binary"

// Keys of records are structured: each part but the last is preceded by its length, so that ("a_b", "c") and
// ("a", "b_c") are different counters (SEMANTICS S11). The first byte says what the record is. It stands in logs and
// snapshots: append, never give one to something else.
const (
	counterRecord  = 'k' // namespace, policy, key -> the states of the policy's limits
	answerRecord   = 'i' // namespace, idempotency id -> the answer that was given
	sessionRecord  = 's' // epoch, seq, index -> what the session has counted
	documentRecord = 'd' // name -> version and body; on the system shard only
	adoptionRecord = 'a' // nothing more -> version and text of the policies that the shard evaluates under

	legRecord    = 'l' // namespace, id of an operation -> what this shard has charged for it
	rulingRecord = 'o' // namespace, id of an operation -> what this shard, its home, has decided
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

func appendSessionKey(b []byte, s Session) []byte {
	b = append(b, sessionRecord)
	b = binary.AppendUvarint(b, s.Epoch)
	b = binary.AppendUvarint(b, s.Seq)
	return binary.AppendUvarint(b, uint64(s.Index))
}

// appendString writes s with its length before it.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
