package raftfsm

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// BenchmarkInstall measures the work that every replica does for a committed entry: decode it and install its effects.
func BenchmarkInstall(b *testing.B) {
	for _, effects := range []int{1, 100} {
		b.Run(fmt.Sprintf("effects=%d", effects), func(b *testing.B) {
			b.ReportAllocs()
			f := &fsm{state: shard.NewState(0)}
			outcome, err := f.install(&raft.Log{Index: 1, Term: 1,
				Data: shard.EncodeEpochOpen(0, limit.Time(1), shard.LevelNewest)})
			if err != nil {
				b.Fatal(err)
			}
			puts := make([]shard.Put, effects)
			for i := range puts {
				puts[i] = shard.Put{Key: fmt.Sprintf("key %d", i),
					Record: shard.Record{Value: make([]byte, 24), ForgetAt: limit.Forever}}
			}
			log := &raft.Log{Index: 1, Term: 1}
			for seq := uint64(1); b.Loop(); seq++ {
				b.StopTimer()
				at := shard.Stamp{Position: shard.Position{Epoch: outcome.Epoch, Seq: seq}, Now: limit.Time(seq)}
				log.Index, log.Data = log.Index+1, shard.EncodeBatch(at, puts)
				b.StartTimer()
				if outcome, err := f.install(log); err != nil || outcome.Dropped != shard.NotDropped {
					b.Fatalf("%+v, %v", outcome, err)
				}
			}
		})
	}
}
