package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Bounds of a call: as many requests as the owner decides at once, what they may be as the API has it. They are checked at
// both ends: what one caller sends must not end the connection that all share, and what a peer sends is not believed.
const (
	maxCallRequests = 4096
	maxEntries      = 32
	maxLimits       = 16 // of one entry, in the place of a policy's
	maxBudget       = time.Hour
)

// sentCall is a call as it arrives.
type sentCall struct {
	number   uint64
	budget   time.Duration // what was left of the caller's deadline when the frame was made; 0: it has none
	hops     int           // that the requests have made, this one included
	shard    shard.ID
	requests []shard.Request
}

// appendCallHead writes what is known when the frame is made. The deadline travels as what is left of it, in
// microseconds: clocks of two machines are not compared.
func appendCallHead(b []byte, number uint64, budget time.Duration) []byte {
	b = binary.AppendUvarint(b, number)
	return binary.AppendUvarint(b, uint64(min(budget, maxBudget)/time.Microsecond))
}

// encodeCall writes the rest of a call, which its caller does: not the goroutine through which all calls go.
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

// requestProblem says why a request cannot be forwarded.
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
	case r.Operation != nil && max(len(r.Operation.Legs), len(r.Operation.Verdict.Legs)) > maxEntries:
		return shard.Invalidf("operation", "has more than %d legs, one for each entry", maxEntries)
	case len(r.Document) > shard.MaxDocumentName:
		return shard.Invalidf("document", "has a name of %d bytes, of %d at most", len(r.Document), shard.MaxDocumentName)
	case len(r.Body) > shard.MaxDocumentBytes:
		return shard.Invalidf("body", "has %d bytes, of %d at most", len(r.Body), shard.MaxDocumentBytes)
	}
	return nil
}

// needsEntries tells whether a request of this kind is nothing without a key. What a shard is told of an operation
// stands in its records.
func needsEntries(op shard.Op) bool {
	switch op {
	case shard.OpenSession, shard.Fetch, shard.Swap, shard.AskHome, shard.ResolveHome, shard.FinishLeg, shard.Acknowledge:
		return false
	}
	return true
}

// mostLimits is how many limits the entry brings that brings most.
func mostLimits(entries []shard.Entry) (most int) {
	for i := range entries {
		most = max(most, len(entries[i].Limits))
	}
	return most
}

// appendSized writes a value with its length before it, so that a reader can take it off as one string.
func appendSized(b []byte, write func([]byte) []byte) []byte {
	start := len(b)
	b = write(append(b, 0))
	size := len(b) - start - 1
	if size < 0x80 { // as nearly always: the length fits the byte left for it
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

// Bits of what follows the entries of a request. When there is nothing, the bits are left out as well.
const (
	bitInSession byte = 1 << iota
	bitRetry
	bitAboutDocument
	bitAsksMore
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

// appendExtra writes what few requests have. How far behind its number a request's finished ones are is mostly a
// small number: that travels, and comes back right whatever the two are.
func appendExtra(b []byte, r *shard.Request) []byte {
	inSession := r.Session != (shard.Session{}) || r.Number != 0 || r.Acked != 0
	aboutDocument := r.Document != "" || r.Expect != 0 || len(r.Body) > 0
	more := moreBits(r)
	bits := flag(inSession, bitInSession) | flag(r.Retry, bitRetry) | flag(aboutDocument, bitAboutDocument) |
		flag(more != 0, bitAsksMore)
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
	return b
}

func appendSession(b []byte, s shard.Session) []byte {
	b = binary.AppendUvarint(b, s.Epoch)
	b = binary.AppendUvarint(b, s.Seq)
	return binary.AppendUvarint(b, uint64(s.Index))
}

// decodeCalls reads the records of a frame of calls. The requests refer to none of its bytes.
func decodeCalls(records []byte) ([]sentCall, error) {
	var calls []sentCall
	for r := (frameReader{rest: string(records)}); len(r.rest) > 0; {
		c := sentCall{number: r.uvarint()}
		c.budget = time.Duration(r.upTo(uint64(maxBudget/time.Microsecond))) * time.Microsecond
		c.hops, c.shard = int(r.upTo(MaxHops)), shard.ID(r.upTo(math.MaxUint32))
		c.requests = make([]shard.Request, r.countTo(maxCallRequests))
		text := r.strings(len(c.requests))
		var one frameReader
		for i := range c.requests {
			one = frameReader{rest: text.string(), entries: one.entries, ahead: len(c.requests) - i}
			c.requests[i] = one.request()
			r.failed = r.failed || one.failed || one.rest != ""
		}
		if r.failed || c.hops == 0 || len(c.requests) == 0 {
			return nil, fmt.Errorf("%w: call %d", errMalformedFrame, c.number)
		}
		calls = append(calls, c)
	}
	return calls, nil
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
	q.Retry = bits&bitRetry != 0
	if bits&bitAboutDocument != 0 {
		q.Document, q.Expect, q.Body = r.string(), r.uvarint(), r.body()
	}
	if bits&bitAsksMore != 0 {
		r.more(q)
	}
}

func (r *frameReader) session() shard.Session {
	return shard.Session{Epoch: r.uvarint(), Seq: r.uvarint(), Index: uint32(r.upTo(math.MaxUint32))}
}

// body reads a document's body; nil when it is empty.
func (r *frameReader) body() []byte {
	n := r.countTo(shard.MaxDocumentBytes)
	b := append([]byte(nil), r.rest[:n]...)
	r.rest = r.rest[n:]
	return b
}
