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

	legRecord           = 'l' // namespace, id of an operation -> what this shard has charged for it
	rulingRecord        = 'o' // namespace, id of an operation -> what this shard, its home, has decided
	sessionAnswerRecord = 'n' // epoch, seq, index, number -> the answer to that request of the session
	endRecord           = 'h' // name of a hold, or of a refunded decision -> how it ended, and what was answered
	auditRecord         = 'u' // place in the ring -> a change that somebody made
	auditHeadRecord     = 'U' // nothing more -> how many changes were made
)

// appendCounterKey names the counter of a key. The policy is that of policyPart.
func appendCounterKey(b []byte, namespace, policy, key string) []byte {
	b = append(b, counterRecord)
	b = appendString(b, namespace)
	b = appendString(b, policy)
	return append(b, key...)
}

// policyPart is the policy of an entry as its counter's key has it. Limits that a request brings along are counted apart
// from those of a policy, whatever it calls them: no policy has a name that begins with "~".
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

// appendSessionAnswerKey names the answer that a session's request was given.
func appendSessionAnswerKey(b []byte, r *Request) []byte {
	b = append(b, sessionAnswerRecord)
	b = appendPlace(b, r.Session.Epoch, r.Session.Seq, r.Session.Index)
	return binary.AppendUvarint(b, r.Number)
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

// appendString writes s with its length before it.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
