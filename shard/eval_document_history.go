package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
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
	history, problem := documentOf(name, ds.lookup)
	if problem == nil {
		changes, _ = DocumentChanges(history)
	}
	changes = append(changes, DocumentChange{Version: version,
		AuditRecord: AuditRecord{At: ds.at.Now, Position: ds.at.Position,
			Actor: r.Adjustment.Actor, Note: r.Adjustment.Note, Deed: "apply"}})
	changes = changes[max(0, len(changes)-historyKept):]
	c := codec.Writer(nil)
	codec.List(&c, &changes, historyKept, func(change *DocumentChange) { change.code(&c) })
	ds.write(Put{Key: documentKey(name),
		Record: Record{Value: encodeDocument(history.Version+1, c.Written()), ForgetAt: limit.Forever}})
}

func (x *DocumentChange) code(c *codec.Codec) {
	c.Uint64(&x.Version)
	record := string(encodeAudit(&x.AuditRecord))
	if c.Text(&record); c.Reading() {
		var err error
		if x.AuditRecord, err = decodeAudit([]byte(record)); err != nil {
			c.Fail()
		}
	}
}

// DocumentChanges reads a history, oldest first. A history of version 0 is empty.
func DocumentChanges(history Document) ([]DocumentChange, error) {
	if history.Version == 0 {
		return nil, nil
	}
	var changes []DocumentChange
	c := codec.Reader(string(history.Body))
	if codec.List(&c, &changes, historyKept, func(change *DocumentChange) { change.code(&c) }); !c.Whole() {
		return nil, errMalformedDocument
	}
	return changes, nil
}
