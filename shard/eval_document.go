package shard

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

// Document is one versioned text of the system shard. Only Swap replaces it, and always as a whole.
type Document struct {
	Version uint64 // 0 if the document does not exist
	Body    []byte
}

// The bounds of a document.
const (
	MaxDocumentName  = 64        // bytes, at least 1
	MaxDocumentBytes = 192 << 10 // of its body, which leaves spare room in an entry of MaxEntryBytes
)

// ReadDocument reads a document from a replica of the system shard, without a commit, so it may be behind. The body is
// a copy. Version 0 means that the document does not exist. The error means that it exists but cannot be read.
func ReadDocument(view Records, name string) (Document, error) {
	return ReadNewerDocument(view, name, 0)
}

// ReadNewerDocument is ReadDocument for a document that is newer than a version; otherwise it returns version 0 and
// copies nothing.
func ReadNewerDocument(view Records, name string, than uint64) (Document, error) {
	d, err := documentOf(name, view.Lookup)
	switch {
	case err != nil:
		return Document{}, err
	case d.Version <= than:
		return Document{}, nil
	}
	d.Body = append([]byte(nil), d.Body...)
	return d, nil
}

// documentOf looks a document up. The body shares the record's memory.
func documentOf(name string, lookup func(key string) (Record, bool)) (Document, *Error) {
	record, found := lookup(documentKey(name))
	if !found {
		return Document{}, nil
	}
	version, body, ok := versioned(record.Value)
	if !ok {
		return Document{}, unreadable("document", fmt.Sprintf("%q", name), errMalformedDocument)
	}
	return Document{Version: version, Body: body}, nil
}

func documentKey(name string) string { return string(documentRecord) + name }

// encodeDocument writes the record: format, version, body.
func encodeDocument(version uint64, body []byte) []byte {
	b := make([]byte, 0, 1+binary.MaxVarintLen64+len(body))
	b = binary.AppendUvarint(append(b, recordFormat), version)
	return append(b, body...)
}

// versioned reads a record of a format, a version and a body, which shares the memory of value.
func versioned(value []byte) (version uint64, body []byte, ok bool) {
	c, format := codec.Over(value), byte(0)
	codec.Byte(&c, &format)
	c.Uint64(&version)
	return version, c.Rest(), !c.Failed() && format == recordFormat && version > 0
}

var errMalformedDocument = errors.New("shard: document record is malformed or of an unknown format")

// documents evaluates the operations of the system shard.
type documents struct{ *batch }

// decide answers with the document after the earlier requests of the batch, or replaces it.
func (ds documents) decide(r *Request) Result {
	if err := r.documentProblem(ds.at.Shard); err != nil {
		return Result{Err: err}
	}
	document, err := documentOf(r.Document, ds.lookup)
	switch {
	case err != nil:
		return Result{Err: err}
	case r.Op == Swap:
		return ds.swap(r, document.Version)
	}
	document.Body = append([]byte(nil), document.Body...)
	return ds.answerOf(SystemAnswer{Document: document})
}

// swap replaces the document of a version if that is the expected one. The answer has its new version, but not the
// body, which the caller already has.
func (ds documents) swap(r *Request, version uint64) Result {
	if version != r.Expect {
		return Result{Err: errorf(Conflict, "", "document %q has version %d, expected was %d: read it again",
			r.Document, version, r.Expect)}
	}
	ds.write(Put{Key: documentKey(r.Document),
		Record: Record{Value: encodeDocument(version+1, r.Body), ForgetAt: limit.Forever}})
	if r.Adjustment != nil {
		ds.writeHistory(r, version+1)
	}
	return ds.answerOf(SystemAnswer{Document: Document{Version: version + 1}})
}

func (r *Request) documentProblem(shard ID) *Error {
	switch {
	case shard != System:
		return Invalidf("document", "only the system shard has documents, this is shard %v", shard)
	case r.Document == "" || len(r.Document) > MaxDocumentName:
		return Invalidf("document", "has a name of %d bytes: 1 to %d are allowed", len(r.Document), MaxDocumentName)
	case len(r.Body) > MaxDocumentBytes:
		return Invalidf("body", "has %d bytes: at most %d are allowed", len(r.Body), MaxDocumentBytes)
	case r.Adjustment != nil && len(HistoryOf(r.Document)) > MaxDocumentName:
		return Invalidf("document", "has a name of %d bytes: one with a history has %d at most", len(r.Document),
			MaxDocumentName-len(HistoryOf("")))
	}
	return cmp.Or(r.Adjustment.auditProblem(), withoutKeys(r))
}

// withoutKeys refuses fields that a request without keys must not have.
func withoutKeys(r *Request) *Error {
	switch {
	case len(r.Entries) > 0:
		return Invalidf("entries", "are %d: the operation takes none", len(r.Entries))
	case r.ID != "":
		return Invalidf("idempotency_id", "is set: the operation takes none")
	}
	return nil
}
