package shard

import (
	"fmt"
	"testing"
)

// BenchmarkEntryCodec encodes and decodes the entry of a batch with effects on 1 or 100 counters.
func BenchmarkEntryCodec(b *testing.B) {
	for _, effects := range []int{1, 100} {
		puts := make([]Put, effects)
		for i := range puts {
			puts[i] = Put{keyOfBytes24(i), Record{Value: make([]byte, 24), ForgetAt: origin}}
		}
		payload := EncodeBatch(stamp, puts)
		b.Run(fmt.Sprintf("write/effects=%d", effects), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				EncodeBatch(stamp, puts)
			}
		})
		b.Run(fmt.Sprintf("read/effects=%d", effects), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeEntry(payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
