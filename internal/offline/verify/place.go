package verify

import "fmt"

// place is the position of a decision in its shard's log.
type place struct {
	shard      uint32
	epoch, seq uint64
}

// before orders the places of one shard.
func (p place) before(q place) bool { return p.epoch < q.epoch || p.epoch == q.epoch && p.seq < q.seq }

func (p place) String() string {
	return fmt.Sprintf("shard %d, epoch %d, entry %d", p.shard, p.epoch, p.seq)
}

// mark is a place in a shard's log, and the shard time there.
type mark struct {
	place place
	at    int64
}
