package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stint-io/stint/limit"
)

// Document is one versioned text of the system shard. It is replaced as a whole, by Swap, and by nothing else.
type Document struct {
	Version uint64 // 0: there is none
	Body    []byte
}

// The bounds of a document.
const (
	MaxDocumentName  = 64        // bytes, at least 1
	MaxDocumentBytes = 192 << 10 // of its body: with a place to spare in an entry of MaxEntryBytes
)

// documentFormat is the first byte of a document record.
const documentFormat = 1

// ReadDocument reads a document where it is kept, without a commit: as a replica of the system shard has it now, which
// may be behind. The body is a copy. Version 0: there is none.
func ReadDocument(view Records, name string) Document {
	record, found := view.Lookup(documentKey(name))
	return documentOf(record, found)
}

// documentOf reads a looked-up record. The body is a copy.
func documentOf(record Record, found bool) Document {
	if !found {
		return Document{}
	}
	d, err := decodeDocument(record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	d.Body = append([]byte(nil), d.Body...)
	return d
}

func documentKey(name string) string { return string(documentRecord) + name }

// encodeDocument writes the record: format, version, body.
func encodeDocument(version uint64, body []byte) []byte {
	b := make([]byte, 0, 1+binary.MaxVarintLen64+len(body))
	b = binary.AppendUvarint(append(b, documentFormat), version)
	return append(b, body...)
}

// decodeDocument reads a record. The body is the value's own bytes.
func decodeDocument(value []byte) (Document, error) {
	r := reader{rest: value}
	format, version := r.byte(), r.uvarint()
	if r.failed || format != documentFormat || version == 0 {
		return Document{}, errMalformedDocument
	}
	return Document{Version: version, Body: r.rest}, nil
}

var errMalformedDocument = errors.New("shard: document record is malformed or of an unknown format")

// fetch answers with the document as the requests before it have left it.
func (e *evaluation) fetch(r *Request) Result {
	if err := e.documentProblem(r); err != nil {
		return Result{Err: err}
	}
	d := e.newDecision()
	d.Told = &Told{Document: documentOf(e.lookup(documentKey(r.Document)))}
	return Result{Decision: d}
}

// swap replaces the document if its version is the expected one. The answer has its new version and not the body, which
// the caller has.
func (e *evaluation) swap(r *Request) Result {
	if err := e.documentProblem(r); err != nil {
		return Result{Err: err}
	}
	version := e.documentVersion(r.Document)
	if version != r.Expect {
		return Result{Err: &Error{Code: Conflict, Message: fmt.Sprintf(
			"document %q has version %d, expected was %d: read it again", r.Document, version, r.Expect)}}
	}
	e.write(Put{Key: documentKey(r.Document),
		Record: Record{Value: encodeDocument(version+1, r.Body), ForgetAt: limit.Forever}})
	d := e.newDecision()
	d.Told = &Told{Document: Document{Version: version + 1}}
	return Result{Decision: d}
}

func (e *evaluation) documentVersion(name string) uint64 {
	record, found := e.lookup(documentKey(name))
	if !found {
		return 0
	}
	d, err := decodeDocument(record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	return d.Version
}

func (e *evaluation) documentProblem(r *Request) *Error {
	switch {
	case e.at.Shard != System:
		return Invalidf("document", "only the system shard has documents, this is shard %v", e.at.Shard)
	case r.Document == "" || len(r.Document) > MaxDocumentName:
		return Invalidf("document", "has a name of %d bytes: 1 to %d are allowed", len(r.Document), MaxDocumentName)
	case len(r.Body) > MaxDocumentBytes:
		return Invalidf("body", "has %d bytes: at most %d are allowed", len(r.Body), MaxDocumentBytes)
	}
	return withoutKeys(r)
}

// withoutKeys refuses what a request that is about no key must not bring along.
func withoutKeys(r *Request) *Error {
	switch {
	case len(r.Entries) > 0:
		return Invalidf("entries", "are %d: the operation takes none", len(r.Entries))
	case r.ID != "":
		return Invalidf("idempotency_id", "is set: the operation takes none")
	}
	return nil
}
