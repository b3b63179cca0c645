package raftfsm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// BenchmarkPropose measures entries of 200 bytes on a group of one voter on the real disk, with one entry per proposal.
func BenchmarkPropose(b *testing.B) {
	for _, inFlight := range []int{2, proposalsInFlight} {
		b.Run(fmt.Sprint("inflight=", inFlight), func(b *testing.B) {
			var appends, nanos, entries atomic.Int64
			w := openWorld(b, b.TempDir(), nil, "n1")
			defer w.close(b)
			if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
				b.Fatal(err)
			}
			g := w.openGroup(b, GroupConfig{Replica: lone, Lone: true,
				Observer: Observer{Appended: func(d time.Duration, n int) {
					appends.Add(1)
					nanos.Add(int64(d))
					entries.Add(int64(n))
				}}})
			defer g.Shutdown()
			o := lead(b, g)
			payload := string(make([]byte, 200))
			// one is with the waiter, one with the proposer
			waits := make(chan func() (shard.Outcome, error), inFlight-2)
			var waiters sync.WaitGroup
			b.ResetTimer()
			waiters.Go(func() {
				for wait := range waits {
					if _, err := wait(); err != nil {
						b.Error(err)
					}
				}
			})
			for i := range b.N {
				waits <- g.Propose(o.next(key(i%1000), payload))
			}
			close(waits)
			waiters.Wait()
			b.ReportMetric(float64(nanos.Load())/float64(appends.Load())/1e3, "us/append")
			b.ReportMetric(float64(entries.Load())/float64(appends.Load()), "entries/append")
		})
	}
}

// BenchmarkGroups measures how groups share the fsyncs of one database. Each group has a proposer.
func BenchmarkGroups(b *testing.B) {
	for _, groups := range []int{1, 4, 16} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			w := openWorld(b, b.TempDir(), nil, "n1")
			defer w.close(b)
			var owners []*owner
			for i := range groups {
				r := Replica{Shard: shard.ID(i), Number: 1}
				if err := CreateGroup(w.Stores, r, []string{r.Name("n1")}); err != nil {
					b.Fatal(err)
				}
				g := w.openGroup(b, GroupConfig{Replica: r, Lone: true})
				defer g.Shutdown()
				owners = append(owners, lead(b, g))
			}
			payload := string(make([]byte, 200))
			b.ResetTimer()
			propose(b, owners, b.N, payload)
		})
	}
}
