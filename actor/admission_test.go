package actor

import (
	"testing"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// held returns the current load of the room.
func (r *admission) held() load { return load{r.requests.Load(), r.bytes.Load()} }

// The mailbox is bounded by bytes, so the whole content of a request counts, not only its keys.
func TestARequestWeighsWhatItBringsAlong(t *testing.T) {
	plain := shard.Request{Op: shard.Check, Entries: []shard.Entry{{Policy: "p", Key: "k", Cost: 1}}}
	inline, concluding := plain, plain
	inline.Entries = []shard.Entry{{Policy: "p", Key: "k", Cost: 1, Limits: make([]policy.Limit, 16)}}
	concluding.Operation = &shard.Operation{ID: "x",
		Legs: []shard.Leg{{Decision: shard.Decision{Limits: make([]shard.LimitStatus, 16)}}}}
	weight := func(r shard.Request) int64 { return weigh([]shard.Request{r}).bytes }
	if weight(inline) < weight(plain)+16*100 {
		t.Errorf("with 16 limits a request weighs %d bytes, without %d", weight(inline), weight(plain))
	}
	if weight(concluding) < weight(plain)+16*100 {
		t.Errorf("with 16 statuses of a leg a request weighs %d bytes, without %d", weight(concluding), weight(plain))
	}
}
