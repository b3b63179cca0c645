package hop

import (
	"encoding/binary"
	"fmt"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/codec"
)

// answerRecord holds results of one call: all of them, or as many as fit into a frame.
type answerRecord struct {
	number  uint64 // of the call
	first   int    // index of the first result in the call
	count   int
	body    []byte         // the results, encoded
	results []shard.Result // decoded, at the dialer

	// The acceptor's fields, while the answer waits for a frame.
	refusal bool     // the call was never begun
	shard   shard.ID // the shard in the window whose room it holds
	held    int      // bytes held in the window; set in the last part of an answer only
}

// appendAnswers appends the results of a call to parts, in as many of them as their size needs.
func appendAnswers(parts []answerRecord, number uint64, results []shard.Result) []answerRecord {
	part := answerRecord{number: number, body: make([]byte, 0, 128*min(len(results), 16))}
	for i := range results {
		before := len(part.body)
		if part.body = appendResult(part.body, &results[i]); len(part.body) > maxInFrame {
			one := part.body[before:]
			if len(one) > maxInFrame {
				one = appendResult(nil, &tooLarge)
			}
			part.body = part.body[:before]
			parts = append(parts, part)
			part = answerRecord{number: number, first: i, body: append([]byte(nil), one...)}
		}
		part.count++
	}
	return append(parts, part)
}

// appendResult writes a result after its length.
func appendResult(b []byte, r *shard.Result) []byte {
	c := shard.MessageWriter(b)
	c.Sized(func() { c.Result(r) })
	return c.Written()
}

var tooLarge = shard.Result{Err: &shard.Error{Code: shard.UnknownOutcome,
	Message: "the answer is too large to be forwarded; ask with fewer entries at once"}}

func appendAnswer(b []byte, a *answerRecord) []byte {
	b = binary.AppendUvarint(b, a.number)
	b = binary.AppendUvarint(b, uint64(a.first))
	b = binary.AppendUvarint(b, uint64(a.count))
	return append(b, a.body...)
}

// decodeAnswers reads the records of a frame of answers. The results do not refer to the frame's bytes.
func decodeAnswers(records []byte) ([]answerRecord, error) {
	var answers []answerRecord
	for r := codec.Reader(string(records)); r.Left() > 0; {
		var a answerRecord
		r.Uint64(&a.number)
		codec.Uint(&r, &a.first, maxCallRequests)
		a.count = r.CountTo(0, maxCallRequests)
		a.results = make([]shard.Result, a.count)
		text := r.Texts(a.count)
		var one shard.MessageCodec
		for i := range a.results {
			var record string
			text.Text(&record)
			one.Next(record, a.count-i)
			if one.Result(&a.results[i]); !one.Whole() {
				r.Fail()
			}
		}
		if r.Failed() {
			return nil, fmt.Errorf("%w: answer to call %d", errMalformedFrame, a.number)
		}
		answers = append(answers, a)
	}
	return answers, nil
}
