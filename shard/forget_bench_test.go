package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/limit"
)

// BenchmarkForget forgets a key in a shard of a million: it reads every record.
func BenchmarkForget(b *testing.B) {
	w := newWorld(b, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 10}))
	const keys = 1_000_000
	var requests []Request
	for n := range keys {
		if requests = append(requests, checkOf("p", fmt.Sprint("user:", n, "@example.com"), 1)); len(requests) == 2000 {
			w.batch(origin+limit.Time(n), requests...)
			requests = requests[:0]
		}
	}
	at := w.next(origin + keys)
	for b.Loop() {
		if results, puts := Evaluate(w, w.policies, []Request{forgetOf("user:4711@example.com")},
			at); results[0].Err != nil || len(puts) != 1 {
			b.Fatal(results, puts)
		}
	}
}
