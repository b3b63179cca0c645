package hop

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/codec"
)

// Bounds of a call. It has at most as many requests as the owner decides at once. Both ends check them: one caller's
// requests must not end the connection that all share, and a peer's data is not trusted.
const (
	maxCallRequests = 4096
	maxBudget       = time.Hour // a later deadline travels as this
)

// callRecord is a call as received.
type callRecord struct {
	number   uint64        // drawn by the dialer from 1 on, ascending within a connection
	budget   time.Duration // time left until the caller's deadline when the frame was made; 0 for no deadline
	hops     int           // number of hops so far, including this one
	shard    shard.ID
	requests []shard.Request // those that could be read
	refused  []*shard.Error  // nil if none; else one error for each request of the call, nil for those in requests
}

// count returns the number of requests in the call, and so of its answers.
func (c *callRecord) count() int { return max(len(c.requests), len(c.refused)) }

// appendCallHead writes the part of a call that is known only when the frame is made. The deadline travels as the
// remaining time in microseconds, so that two machines' clocks are not compared.
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
	c := shard.MessageWriter(make([]byte, 0, 16+128*len(requests)))
	codec.Uint(&c.Codec, &hops, MaxHops)
	codec.Uint(&c.Codec, &id, math.MaxUint32)
	c.Count(len(requests))
	for i := range requests {
		if err := requests[i].MessageProblem(); err != nil {
			return nil, err
		}
		c.Sized(func() { c.Request(&requests[i]) })
	}
	if bytes := len(c.Written()); bytes > maxInFrame {
		return nil, shard.Invalidf("", "%d bytes at once, of %d at most that can be forwarded", bytes, maxInFrame)
	}
	return c.Written(), nil
}

// decodeCalls reads the records of a frame of calls. The requests do not refer to the frame's bytes.
func decodeCalls(records []byte) ([]callRecord, error) {
	var calls []callRecord
	for r := codec.Reader(string(records)); r.Left() > 0; {
		var c callRecord
		var budget uint64 // us
		r.Uint64(&c.number)
		codec.Uint(&r, &budget, uint64(maxBudget/time.Microsecond))
		c.budget = time.Duration(budget) * time.Microsecond
		codec.Uint(&r, &c.hops, MaxHops)
		codec.Uint(&r, &c.shard, math.MaxUint32)
		c.readRequests(&r)
		if r.Failed() || c.hops == 0 || c.count() == 0 {
			return nil, fmt.Errorf("%w: call %d", errMalformedFrame, c.number)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// readRequests reads the requests of a call. An unreadable request is refused alone: it may come from a newer node, and
// the frame carries the requests of other callers too.
func (c *callRecord) readRequests(r *codec.Codec) {
	count := r.CountTo(0, maxCallRequests)
	c.requests = make([]shard.Request, 0, count)
	text := r.Texts(count)
	var one shard.MessageCodec
	for i := range count {
		var record string
		var q shard.Request
		text.Text(&record)
		one.Next(record, count-i)
		if one.Request(&q); one.Whole() {
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
	Message: "the node that owns the shard cannot read the request, and nothing was counted: " +
		"are all nodes of one version?"}

// answers merges the results of the readable requests with the errors of the refused ones.
func (c *callRecord) answers(results []shard.Result) []shard.Result {
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
