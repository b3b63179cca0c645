package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Bounds of a call, those of the API. They are checked at both ends: what one caller sends must not end the connection
// that all share, and what a peer sends is not believed.
const (
	maxCallRequests = 1000
	maxEntries      = 32
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
		if n := len(requests[i].Entries); n == 0 || n > maxEntries {
			return nil, shard.Invalidf("entries", "are %d: 1 to %d can be forwarded", n, maxEntries)
		}
		b = appendSized(b, func(b []byte) []byte { return appendRequest(b, &requests[i]) })
	}
	if len(b) > maxInFrame {
		return nil, shard.Invalidf("", "%d bytes at once, of %d at most that can be forwarded", len(b), maxInFrame)
	}
	return b, nil
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
	return b
}

// decodeCalls reads the records of a frame of calls. The requests refer to none of its bytes.
func decodeCalls(records []byte) ([]sentCall, error) {
	var calls []sentCall
	for r := (frameReader{rest: string(records)}); len(r.rest) > 0; {
		c := sentCall{number: r.uvarint()}
		c.budget = time.Duration(r.upTo(uint64(maxBudget/time.Microsecond))) * time.Microsecond
		c.hops, c.shard = int(r.upTo(MaxHops)), shard.ID(r.upTo(math.MaxUint32))
		c.requests = make([]shard.Request, r.countTo(maxCallRequests))
		for i := range c.requests {
			one := frameReader{rest: strings.Clone(r.string())}
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
	q.Entries = make([]shard.Entry, r.countTo(maxEntries))
	for i := range q.Entries {
		q.Entries[i] = shard.Entry{Policy: r.string(), Key: r.string(), Tier: r.string(), Cost: r.uvarint()}
	}
	r.failed = r.failed || len(q.Entries) == 0
	return q
}
