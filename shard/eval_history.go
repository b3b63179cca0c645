package shard

import (
	"encoding/binary"

	"github.com/stint-io/stint/limit"
)

// HistoryOf returns the name of the document that records the replacements of another one: their authors, times and
// notes. A Swap with an Adjustment replaces both in one entry.
func HistoryOf(document string) string { return document + "/history" }

// historyKept is how many of the newest versions a history contains. With the longest names and notes they are a fifth
// of a document.
const historyKept = 64

// DocumentChange is one version of a document in its history.
type DocumentChange struct {
	Version uint64
	AuditRecord
}

// writeHistory records a new version of a document. If the history cannot be read, it starts again: a broken history
// must not prevent changes.
func (ds documents) writeHistory(r *Request, version uint64) {
	name := HistoryOf(r.Document)
	var changes []DocumentChange
	history, problem := ds.document(name)
	if problem == nil {
		changes, _ = DocumentChanges(history)
	}
	changes = append(changes, DocumentChange{Version: version, AuditRecord: AuditRecord{At: ds.at.Now, Position: ds.at.Position,
		Actor: r.Adjustment.Actor, Note: r.Adjustment.Note, Deed: "apply"}})
	changes = changes[max(0, len(changes)-historyKept):]
	body := binary.AppendUvarint(nil, uint64(len(changes)))
	for i := range changes {
		body = binary.AppendUvarint(body, changes[i].Version)
		body = appendString(body, string(encodeAudit(&changes[i].AuditRecord)))
	}
	ds.write(Put{Key: documentKey(name), Record: Record{Value: encodeDocument(history.Version+1, body), ForgetAt: limit.Forever}})
}

// DocumentChanges reads a history, oldest first. A history of version 0 is empty.
func DocumentChanges(history Document) ([]DocumentChange, error) {
	if history.Version == 0 {
		return nil, nil
	}
	r := reader{rest: history.Body}
	count := r.uvarint()
	if r.failed || count > historyKept {
		return nil, errMalformedDocument
	}
	changes := make([]DocumentChange, count)
	for i := range changes {
		version := r.uvarint()
		record, err := decodeAudit([]byte(r.string()))
		if err != nil {
			return nil, err
		}
		changes[i] = DocumentChange{Version: version, AuditRecord: record}
	}
	if r.failed || len(r.rest) != 0 {
		return nil, errMalformedDocument
	}
	return changes, nil
}
