package hop

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Bounds of a call. It has at most as many requests as the owner decides at once, and each is bounded as in the API. Both
// ends check them: one caller's requests must not end the connection that all share, and a peer's data is not trusted.
const (
	maxCallRequests = 4096
	maxEntries      = 32
	maxLimits       = 16 // of one entry that brings its own limits
	maxBudget       = time.Hour
)

// sentCall is a call as received.
type sentCall struct {
	number   uint64
	budget   time.Duration // time left until the caller's deadline when the frame was made; 0: no deadline
	hops     int           // number of hops so far, including this one
	shard    shard.ID
	requests []shard.Request
	refused  []*shard.Error // nil: none; else one error for each request of the call, nil for those in requests
}

// count returns how many requests the call has, and so how many answers it gets.
func (c *sentCall) count() int { return max(len(c.requests), len(c.refused)) }

// appendCallHead writes the part of a call that is known only when the frame is made. The deadline travels as the
// remaining time in microseconds, so that the clocks of two machines are not compared.
func appendCallHead(b []byte, number uint64, budget time.Duration) []byte {
	b = binary.AppendUvarint(b, number)
	return binary.AppendUvarint(b, uint64(min(budget, maxBudget)/time.Microsecond))
}

// encodeCall encodes the rest of a call. It runs in the caller's goroutine, not in the one through which all calls are
// sent.
func encodeCall(hops int, id shard.ID, requests []shard.Request) ([]byte, *shard.Error) {
	if len(requests) > maxCallRequests {
		return nil, shard.Invalidf("", "%d requests at once, of %d at most that can be forwarded",
			len(requests), maxCallRequests)
	}
	b := make([]byte, 0, 16+128*len(requests))
	b = binary.AppendUvarint(b, uint64(hops))
	b = binary.AppendUvarint(b, uint64(id))
	b = binary.AppendUvarint(b, uint64(len(requests)))
	for i := range requests {
		if err := requestProblem(&requests[i]); err != nil {
			return nil, err
		}
		b = appendSized(b, func(b []byte) []byte { return appendRequest(b, &requests[i]) })
	}
	if len(b) > maxInFrame {
		return nil, shard.Invalidf("", "%d bytes at once, of %d at most that can be forwarded", len(b), maxInFrame)
	}
	return b, nil
}

// requestProblem returns the error of a request that cannot be forwarded, or nil.
func requestProblem(r *shard.Request) *shard.Error {
	switch n := len(r.Entries); {
	case n > maxEntries || n == 0 && needsEntries(r.Op):
		return shard.Invalidf("entries", "are %d: 1 to %d can be forwarded", n, maxEntries)
	case mostLimits(r.Entries) > maxLimits:
		return shard.Invalidf("entries", "bring %d limits at once, of %d at most that can be forwarded",
			mostLimits(r.Entries), maxLimits)
	case mostCounted(r.Entries) > maxLimits:
		return shard.Invalidf("entries", "were counted by %d limits, of %d at most that can be forwarded",
			mostCounted(r.Entries), maxLimits)
	case r.Operation != nil && mostLegs(r.Operation) > maxEntries:
		return shard.Invalidf("operation", "has more than %d legs, one for each entry", maxEntries)
	case len(r.Document) > shard.MaxDocumentName:
		return shard.Invalidf("document", "has a name of %d bytes, of %d at most", len(r.Document), shard.MaxDocumentName)
	case len(r.Body) > shard.MaxDocumentBytes:
		return shard.Invalidf("body", "has %d bytes, of %d at most", len(r.Body), shard.MaxDocumentBytes)
	}
	return nil
}

// needsEntries reports whether a request with this operation must have entries. Messages about an operation need none,
// because the shard has a record of its keys.
func needsEntries(op shard.Op) bool {
	switch op {
	case shard.OpenSession, shard.Fetch, shard.Swap, shard.AskHome, shard.ResolveHome, shard.FinishLeg, shard.Acknowledge:
		return false
	}
	return !op.AboutShard()
}

// mostLimits returns the largest number of limits that an entry brings.
func mostLimits(entries []shard.Entry) (most int) {
	for i := range entries {
		most = max(most, len(entries[i].Limits))
	}
	return most
}

// appendSized writes a value prefixed with its length, so that a reader can take it off as one string.
func appendSized(b []byte, write func([]byte) []byte) []byte {
	start := len(b)
	b = write(append(b, 0))
	size := len(b) - start - 1
	if size < 0x80 { // nearly always: the length fits the byte reserved for it
		b[start] = byte(size)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	b = append(b, length[:n-1]...)
	copy(b[start+n:], b[start+1:start+1+size])
	copy(b[start:], length[:n])
	return b
}

// Bits for the fields after the entries of a request. If none is present, the bits are left out too.
const (
	bitInSession byte = 1 << iota
	bitRetry
	bitAboutDocument
	bitAsksMore
	bitRevision
	bitHashed
	bitFollowed
	bitOwn
	bitsExtra = 1<<iota - 1
)

func appendRequest(b []byte, r *shard.Request) []byte {
	b = append(b, byte(r.Op))
	b = appendText(b, r.Namespace)
	b = appendText(b, r.Limit)
	b = appendText(b, r.ID)
	b = binary.AppendVarint(b, int64(r.NotAfter))
	b = binary.AppendUvarint(b, uint64(len(r.Entries)))
	for i := range r.Entries {
		e := &r.Entries[i]
		b = appendText(b, e.Policy)
		b = appendText(b, e.Key)
		b = appendText(b, e.Tier)
		b = binary.AppendUvarint(b, e.Cost)
	}
	return appendExtra(b, r)
}

// appendExtra writes fields that few requests have. Acked travels as its distance from the number, which is usually
// small; the subtraction is undone exactly for any two values.
func appendExtra(b []byte, r *shard.Request) []byte {
	inSession := r.Session != (shard.Session{}) || r.Number != 0 || r.Acked != 0
	aboutDocument := r.Document != "" || r.Expect != 0 || len(r.Body) > 0
	more := moreBits(r)
	bits := flag(inSession, bitInSession) | flag(r.Retry, bitRetry) | flag(aboutDocument, bitAboutDocument) |
		flag(more != 0, bitAsksMore) | flag(r.Revision != 0, bitRevision) | flag(r.Hashed, bitHashed) |
		flag(r.Trace != nil, bitFollowed) | flag(r.Own != 0, bitOwn)
	if bits == 0 {
		return b
	}
	b = append(b, bits)
	if inSession {
		b = appendSession(b, r.Session)
		b = binary.AppendUvarint(b, r.Number)
		b = binary.AppendUvarint(b, r.Number-r.Acked)
	}
	if aboutDocument {
		b = appendText(b, r.Document)
		b = binary.AppendUvarint(b, r.Expect)
		b = append(binary.AppendUvarint(b, uint64(len(r.Body))), r.Body...)
	}
	if more != 0 {
		b = appendMore(append(b, more), r, more)
	}
	if r.Revision != 0 {
		b = binary.AppendUvarint(b, r.Revision)
	}
	if r.Trace != nil {
		b = appendTrace(b, r.Trace.Context())
	}
	if r.Own != 0 {
		b = binary.AppendUvarint(b, uint64(r.Own))
	}
	return b
}

func appendSession(b []byte, s shard.Session) []byte {
	b = binary.AppendUvarint(b, s.Epoch)
	b = binary.AppendUvarint(b, s.Seq)
	return binary.AppendUvarint(b, uint64(s.Index))
}

// decodeCalls reads the records of a frame of calls. The requests do not refer to the frame's bytes.
func decodeCalls(records []byte) ([]sentCall, error) {
	var calls []sentCall
	for r := (frameReader{rest: string(records)}); len(r.rest) > 0; {
		c := sentCall{number: r.uvarint()}
		c.budget = time.Duration(r.upTo(uint64(maxBudget/time.Microsecond))) * time.Microsecond
		c.hops, c.shard = int(r.upTo(MaxHops)), shard.ID(r.upTo(math.MaxUint32))
		c.readRequests(&r)
		if r.failed || c.hops == 0 || c.count() == 0 {
			return nil, fmt.Errorf("%w: call %d", errMalformedFrame, c.number)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// readRequests reads the requests of a call. An unreadable request is refused alone: it may come from a newer node, and
// the frame carries the requests of other callers too.
func (c *sentCall) readRequests(r *frameReader) {
	count := r.countTo(maxCallRequests)
	c.requests = make([]shard.Request, 0, count)
	text := r.strings(count)
	if r.failed {
		return
	}
	var one frameReader
	for i := range count {
		one = frameReader{rest: text.string(), entries: one.entries, ahead: count - i}
		q := one.request()
		if !one.failed && one.rest == "" {
			c.requests = append(c.requests, q)
			continue
		}
		if c.refused == nil {
			c.refused = make([]*shard.Error, count)
		}
		c.refused[i] = errUnreadable
	}
}

var errUnreadable = &shard.Error{Code: shard.Unreadable,
	Message: "the node that owns the shard cannot read the request, and nothing was counted: are all nodes of one version?"}

// answers merges the results of the readable requests with the errors of the refused ones.
func (c *sentCall) answers(results []shard.Result) []shard.Result {
	if c.refused == nil {
		return results
	}
	all := make([]shard.Result, len(c.refused))
	for i, err := range c.refused {
		if all[i].Err = err; err == nil {
			all[i], results = results[0], results[1:]
		}
	}
	return all
}

func (r *frameReader) request() (q shard.Request) {
	q.Op = shard.Op(r.flags(math.MaxUint8))
	q.Namespace, q.Limit, q.ID, q.NotAfter = r.string(), r.string(), r.string(), limit.Time(r.varint())
	if n := r.countTo(maxEntries); n > 0 {
		q.Entries, r.entries = carve(r.entries, n, r.ahead)
	}
	for i := range q.Entries {
		q.Entries[i] = shard.Entry{Policy: r.string(), Key: r.string(), Tier: r.string(), Cost: r.uvarint()}
	}
	if r.rest != "" {
		r.extra(&q)
	}
	if isTally(q.Op) && mostLimits(q.Entries) == 0 {
		for i := range q.Entries {
			q.Entries[i].Limits = shard.TallyLimits
		}
	}
	r.failed = r.failed || requestProblem(&q) != nil
	return q
}

func (r *frameReader) extra(q *shard.Request) {
	bits := r.flags(bitsExtra)
	if bits&bitInSession != 0 {
		q.Session, q.Number = r.session(), r.uvarint()
		q.Acked = q.Number - r.uvarint()
	}
	q.Retry, q.Hashed = bits&bitRetry != 0, bits&bitHashed != 0
	if bits&bitAboutDocument != 0 {
		q.Document, q.Expect, q.Body = r.string(), r.uvarint(), r.body()
	}
	if bits&bitAsksMore != 0 {
		r.more(q)
	}
	if bits&bitRevision != 0 {
		q.Revision = r.uvarint()
	}
	if bits&bitFollowed != 0 {
		q.Trace = r.trace()
	}
	if bits&bitOwn != 0 {
		q.Own = int(r.upTo(math.MaxInt32))
	}
}

func (r *frameReader) session() shard.Session {
	return shard.Session{Epoch: r.uvarint(), Seq: r.uvarint(), Index: uint32(r.upTo(math.MaxUint32))}
}

// body reads a document's body; nil if it is empty.
func (r *frameReader) body() []byte {
	n := r.countTo(shard.MaxDocumentBytes)
	b := append([]byte(nil), r.rest[:n]...)
	r.rest = r.rest[n:]
	return b
}
