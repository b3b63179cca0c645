package hop

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// BenchmarkFrame encodes and decodes the frames of a call with some number of checks, and of its answer.
func BenchmarkFrame(b *testing.B) {
	for _, size := range []int{1, 100} {
		requests, results := make([]shard.Request, size), make([]shard.Result, size)
		for i := range requests {
			requests[i] = inSession(uint64(i+1), uint64(i))
			requests[i].Op, requests[i].Namespace = shard.Check, "default"
			requests[i].Entries = []shard.Entry{{Policy: "per-ip", Key: fmt.Sprintf("203.0.113.%013d", i), Cost: 1}}
			results[i].Decision = shard.Decision{Allowed: true, Limits: make([]shard.LimitStatus, 1)}
		}
		call := callsFrame(b, 1, time.Second, requests...)[frameHead+1:]
		var answer []byte
		for _, part := range appendAnswers(nil, 1, results) {
			answer = appendAnswer(answer, &part)
		}
		for _, c := range []struct {
			name string
			do   func() error
		}{
			{"call/write", func() error {
				if _, err := encodeCall(1, 3, requests); err != nil {
					return err
				}
				return nil
			}},
			{"call/read", func() error { _, err := decodeCalls(call); return err }},
			{"answer/write", func() error { appendAnswers(nil, 1, results); return nil }},
			{"answer/read", func() error { _, err := decodeAnswers(answer); return err }},
		} {
			b.Run(fmt.Sprintf("%s/requests=%d", c.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := c.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// Requests of a call beyond the first need no memory of their own.
func TestDecodingAllocatesForACallNotForARequest(t *testing.T) {
	requests := make([]shard.Request, 64)
	for i := range requests {
		requests[i] = check(fmt.Sprint("user:", i))
	}
	body, problem := encodeCall(1, 3, requests)
	if problem != nil {
		t.Fatal(problem)
	}
	calls := append(appendCallHead(nil, 1, time.Second), body...)
	answers := appendAnswer(nil, &appendAnswers(nil, 1, echo(t.Context(), 1, 3, requests))[0])
	if n := testing.AllocsPerRun(100, func() { decodeCalls(calls) }); n > 5 {
		t.Errorf("a call of 64 requests is read with %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { decodeAnswers(answers) }); n > 5 {
		t.Errorf("an answer of 64 results is read with %v allocations", n)
	}
}
