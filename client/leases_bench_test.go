package client

import (
	"sync/atomic"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// One hot key, and any number of goroutines in one process.
func BenchmarkCheckFromALease(b *testing.B) {
	l := newLessor(b)
	l.most = 1 << 40
	c, err := New(Config{Addresses: []string{"http://node"}, HTTP: l, Leases: true})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := Entry("p", "k")
	for d := new(stintv1.Decision); !d.Leased; {
		if d, err = c.Check(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	var sent atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := c.Check(b.Context(), r); err != nil || !d.Leased {
				sent.Add(1)
			}
		}
	})
	b.ReportMetric(float64(sent.Load())/float64(b.N), "sent/op")
}
