package shard

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

var (
	bucketLimit = limit.Limit{Algorithm: limit.TokenBucket, Quota: 1 << 40, Count: 100, Period: second,
		Initial: 1 << 40}
	windowLimit = limit.Limit{Algorithm: limit.FixedWindow, Quota: 1 << 40, Period: minute}
	logLimit    = limit.Limit{Algorithm: limit.SlidingLog, Quota: 5, Period: 15 * minute}
	minuteLimit = limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 1 << 40, Period: day, Bucket: minute}
)

// BenchmarkBatch measures an owner's and a replica's work on one batch: Evaluate, EncodeBatch, Install. There is a
// batch every millisecond; ns and allocs are per decision.
func BenchmarkBatch(b *testing.B) {
	denying := limit.Limit{Algorithm: limit.Lifetime, Quota: 1}
	for _, c := range []struct {
		name   string
		policy *policy.Policy
		keys   int
		again  again
	}{
		{"hot/bucket", onePolicy(bucketLimit), 1, never},
		{"hot/window", onePolicy(windowLimit), 1, never},
		{"hot/log", onePolicy(logLimit), 1, never},
		{"hot/two-limits", onePolicy(bucketLimit, minuteLimit), 1, never},
		{"hot/denied", onePolicy(denying), 1, never},
		{"hot/ids", onePolicy(bucketLimit), 1, byID},
		{"hot/session", onePolicy(bucketLimit), 1, inASession},
		{"spread/bucket", onePolicy(bucketLimit), 100_000, never},
		{"spread/window", onePolicy(windowLimit), 100_000, never},
		{"spread/session", onePolicy(bucketLimit), 100_000, inASession},
	} {
		for _, size := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/batch=%d", c.name, size), func(b *testing.B) {
				benchBatch(b, c.policy, c.keys, size, c.again)
			})
		}
	}
}

// again is the mechanism by which a request may be sent again.
type again int

const (
	never again = iota
	byID
	inASession
)

func benchBatch(b *testing.B, p *policy.Policy, keys, size int, by again) {
	w := newWorld(b, p)
	session := opened(w, origin)
	requests := make([]Request, 0, max(keys, 256)+size)
	for i := range cap(requests) {
		requests = append(requests, checkOf("p", fmt.Sprintf("203.0.113.%013d", i%keys), 1))
	}
	now, at, n := origin, 0, 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for n < b.N*size {
		for i := range size {
			switch r := &requests[at+i]; by {
			case byID:
				r.ID = fmt.Sprintf("id %d", n+i)
			case inASession: // with two batches in progress
				r.Session, r.Number, r.Acked = session, uint64(n+i+1), uint64(max(0, n-size))
			}
		}
		now += limit.Time(millisecond)
		w.batch(now, requests[at:at+size]...)
		n += size
		at = (at + size) % (len(requests) - size + 1)
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/decision")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(n), "allocs/decision")
	// Rounded, as the testing package cuts off what is behind the point: 173.92 was 174 with a few of the runtime's.
	b.ReportMetric(math.Round(float64(after.Mallocs-before.Mallocs)/float64(n/size)), "allocs/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(n), "B/decision")
	b.ReportMetric(0, "ns/op")
}

// keyOfBytes24 returns a record's key for a caller's key of 24 bytes.
func keyOfBytes24(i int) string {
	return string(appendCounterKey(nil, "default", "per-ip", fmt.Sprintf("2001:db8::%014x", i)))
}

// filled returns a state with keys keys, each with one limit that was used once.
func filled(b testing.TB, keys int, l limit.Limit) *State {
	s := NewState(3)
	for i := range keys {
		c := counter{key: keyOfBytes24(i), policy: inlinePolicy}
		used, _ := limit.Take(l, limit.State{}, 1+uint64(i%3), origin+limit.Time(i))
		c.limits = []counted{{name: "minute", limit: l, state: used}}
		p := c.encode(origin)
		s.table.Put(p.Key, p.Record)
	}
	return s
}

func BenchmarkTable(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		s := filled(b, keys, windowLimit)
		names := make([]string, 0, keys)
		for i := range keys {
			names = append(names, keyOfBytes24((i*7919)%keys))
		}
		b.Run(fmt.Sprintf("lookup/keys=%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := s.table.Lookup(names[i%keys]); !ok {
					b.Fatal("a key is missing")
				}
			}
		})
		b.Run(fmt.Sprintf("put/keys=%d", keys), func(b *testing.B) {
			r, _ := s.table.Lookup(names[0])
			r.Value = bytes.Clone(r.Value)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.table.Put(names[i%keys], r)
			}
		})
	}
}

// BenchmarkHeap reports the heap bytes per record, for a million records.
func BenchmarkHeap(b *testing.B) {
	const keys = 1_000_000
	small := limit.Limit{Algorithm: limit.TokenBucket, Quota: 100, Count: 10, Period: second, Initial: 100}
	for _, c := range []struct {
		name string
		limit.Limit
	}{{"bucket", small}, {"window", windowLimit}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				s := filled(b, keys, c.Limit)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/keys, "B/record")
				runtime.KeepAlive(s)
			}
		})
	}
}

// BenchmarkSnapshot times a million keys: taking the picture, writing it, reading it.
func BenchmarkSnapshot(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		s := filled(b, keys, windowLimit)
		var file bytes.Buffer
		s.Snapshot().WriteTo(&file)
		b.Run(fmt.Sprintf("take/keys=%d", keys), func(b *testing.B) {
			for b.Loop() {
				s.Snapshot()
			}
		})
		b.Run(fmt.Sprintf("write/keys=%d", keys), func(b *testing.B) {
			b.SetBytes(int64(file.Len()))
			picture := s.Snapshot()
			for b.Loop() {
				picture.WriteTo(io.Discard)
			}
		})
		b.Run(fmt.Sprintf("restore/keys=%d", keys), func(b *testing.B) {
			b.SetBytes(int64(file.Len()))
			for b.Loop() {
				if _, err := Restore(3, bytes.NewReader(file.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyHolds measures an owner's and a replica's work on a key with 1,000 open holds: a Reserve and its Settle,
// and a Check that the holds deny. Requests of a batch share one key. ns and allocs are per request.
func BenchmarkManyHolds(b *testing.B) {
	const open = 1000
	running := limit.Limit{Algorithm: limit.Concurrency, Quota: 2 * open}
	for _, limits := range [][]limit.Limit{{running}, {running, bucketLimit}} {
		for _, size := range []int{1, 100} {
			w := newWorld(b, onePolicy(limits...))
			taken := make([]Request, 0, open)
			for i := range open {
				r := reserveOf(Entry{Policy: "p", Key: "k", Cost: 1})
				r.Hold.TTL = hour + limit.Span(i)*second
				taken = append(taken, r)
			}
			w.batch(origin, taken...)
			now := origin
			b.Run(fmt.Sprintf("settled/limits=%d/batch=%d", len(limits), size), func(b *testing.B) {
				benchRequests(b, 2*size, func() {
					now++
					reserved, _ := w.batch(now, taken[:size]...)
					settles := make([]Request, size)
					for i := range settles {
						settles[i] = settleOf(taken[i], reserved[i].Decision, Settlement{Action: ActionCancel})
					}
					now++
					w.batch(now, settles...)
				})
			})
			b.Run(fmt.Sprintf("denied/limits=%d/batch=%d", len(limits), size), func(b *testing.B) {
				denied := slices.Repeat([]Request{checkOf("p", "k", 3*open/2)}, size)
				benchRequests(b, size, func() {
					now++
					if results, _ := w.batch(now, denied...); results[0].Decision.Allowed {
						b.Fatal("there was room")
					}
				})
			})
		}
	}
}

// benchRequests reports the cost per request, where a round has each requests.
func benchRequests(b *testing.B, each int, round func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		round()
	}
	runtime.ReadMemStats(&after)
	n := float64(b.N * each)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/request")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/request")
	b.ReportMetric(0, "ns/op")
}
