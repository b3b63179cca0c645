package node

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

// BenchmarkDecide measures a request's way from the router of the node that was asked to the owner's log and back,
// without a protocol: three nodes on real disks and loopback in one process. Each caller asks one node, waits for the
// answer, and asks again. cpu-us/op is the processor time of all three nodes and the callers.
func BenchmarkDecide(b *testing.B) {
	for _, shards := range []int{1, 4, 16} {
		for _, callers := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("shards=%d/callers=%d", shards, callers), func(b *testing.B) {
				benchDecide(b, shards, callers, 1)
			})
		}
	}
	b.Run("shards=4/callers=32/requests=64", func(b *testing.B) { benchDecide(b, 4, 32, 64) })
}

// benchDecide makes callers ask for a number of requests at a time; each operation is one request.
func benchDecide(b *testing.B, shards, callers, requests int) {
	c := trioToBe(b)
	for i := range c.nodes {
		c.configs[i].Shards = shards
		c.configs[i].Logger = slog.New(slog.DiscardHandler)
		c.start(i)
	}
	c.ready(0, 1, 2)
	c.await("every node leads its part of the shards", func(s *stintv1.StatusResponse) bool {
		led := []int{ownsOf(s, "n1"), ownsOf(s, "n2"), ownsOf(s, "n3")}
		return atRest(3)(s) && c.ledAsWanted(s) && slices.Max(led)-slices.Min(led) <= 1
	})
	askAll(b, c, callers, requests, 100*callers*requests/10)
	requestsBefore, batchesBefore := decidedTogether(c)
	cpu := processorTime()
	b.ReportAllocs()
	b.ResetTimer()
	askAll(b, c, callers, requests, b.N)
	b.StopTimer()
	b.ReportMetric(float64((processorTime()-cpu).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	requestsAfter, batchesAfter := decidedTogether(c)
	b.ReportMetric((requestsAfter-requestsBefore)/max(1, batchesAfter-batchesBefore), "requests/batch")
}

func askAll(b *testing.B, c *trio, callers, requests, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			node := c.nodes[caller%len(c.nodes)]
			for left.Add(-int64(requests)) > -int64(requests) {
				together := make([]shard.Request, requests)
				for i := range together {
					together[i] = shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
						Entries: []shard.Entry{{Policy: "plenty",
							Key: fmt.Sprintf("user:%d", rand.IntN(100_000)), Cost: 1}}}
				}
				for _, r := range node.router.Decide(b.Context(), together) {
					if r.Err != nil {
						b.Error(r.Err)
						return
					}
				}
			}
		})
	}
	group.Wait()
}

func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// decidedTogether sums up the nodes' metrics of batches, including those of the system shard.
func decidedTogether(c *trio) (requests, batches float64) {
	for _, n := range c.nodes {
		page := httptest.NewRecorder()
		n.metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			figure, _ := strconv.ParseFloat(value, 64)
			switch {
			case strings.HasPrefix(name, "stint_batch_requests_sum"):
				requests += figure
			case strings.HasPrefix(name, "stint_batch_requests_count"):
				batches += figure
			}
		}
	}
	return requests, batches
}
