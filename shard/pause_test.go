package shard

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
)

var pauseKeys = flag.Int("keys", 1_000_000, "keys of BenchmarkPause")

// BenchmarkPause reports the longest and the 99.9th percentile delay before a shard with many keys installs the next
// entry. The causes are the entry before it, of 100 random keys, and the picture at the start of a snapshot. In expire
// a tenth of all keys end at one instant.
func BenchmarkPause(b *testing.B) {
	s := filled(b, *pauseKeys, windowLimit)
	s.epoch, s.term, s.time = 1, 1, origin
	record, _ := s.table.Lookup(keyOfBytes24(0))
	value := slices.Clone(record.Value)
	at := Stamp{Position: Position{3, 1, 0}, Now: origin}
	install := func(b *testing.B, encode func() []byte) time.Duration {
		at.Seq++
		at.Now++
		payload := encode()
		began := time.Now()
		if _, err := s.Install(payload, 1, 1); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	puts := func(n, from int, forgetAt limit.Time) func() []byte {
		return func() []byte {
			list := make([]Put, n)
			for i := range list {
				k := from + i
				if from < 0 {
					k = rand.IntN(*pauseKeys)
				}
				list[i] = Put{Key: keyOfBytes24(k), Record: Record{Value: value, ForgetAt: forgetAt}}
			}
			return EncodeBatch(at, list)
		}
	}
	fingerprint := func() []byte { return EncodeSum(at) }
	update := puts(100, -1, record.ForgetAt)
	report := func(b *testing.B, times []time.Duration) {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-us")
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-us")
		b.ReportMetric(float64(times[len(times)-1].Nanoseconds())/1e3, "max-us")
		b.ReportMetric(0, "ns/op")
	}
	b.Run(fmt.Sprintf("update/keys=%d", *pauseKeys), func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			times = append(times, install(b, update))
		}
		report(b, times)
	})
	b.Run("picture", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			began := time.Now()
			s.Snapshot()
			times = append(times, time.Since(began))
		}
		report(b, times)
	})
	b.Run("after-picture", func(b *testing.B) {
		var times []time.Duration
		for i := 0; b.Loop(); i++ {
			if i%100 == 0 {
				s.Snapshot()
			}
			times = append(times, install(b, update))
		}
		report(b, times)
	})
	b.Run("fingerprint", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			times = append(times, install(b, fingerprint))
		}
		report(b, times)
	})
	b.Run("new", func(b *testing.B) {
		var times []time.Duration
		next := *pauseKeys
		for b.Loop() {
			times = append(times, install(b, puts(100, next, at.Now+1e6)))
			next += 100
		}
		report(b, times)
	})
	b.Run("expire", func(b *testing.B) {
		var times []time.Duration
		living := s.Records()
		for b.Loop() {
			if s.Records() <= living {
				for from := range *pauseKeys / 10 / 1000 {
					install(b, puts(1000, *pauseKeys+1000*from, at.Now+1e9))
				}
				at.Now += 1e9 + 1
			}
			times = append(times, install(b, fingerprint))
		}
		report(b, times)
	})
}
