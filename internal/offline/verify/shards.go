package verify

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// shards has the shards that have answered so far.
type shards struct {
	memory time.Duration // of each
	tell   func(Outage)  // may be nil

	mu sync.Mutex
	of map[uint32]*shard // by id
}

func newShards(memory time.Duration, tell func(Outage)) *shards {
	return &shards{memory: memory, tell: tell, of: map[uint32]*shard{}}
}

// get returns a shard, and adds it if it has never answered before.
func (s *shards) get(id uint32) *shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[id] == nil {
		s.of[id] = &shard{id: id, memory: s.memory, times: map[place]int64{}, tell: s.tell}
	}
	return s.of[id]
}

func (s *shards) all() []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.of))
}

// marks returns a mark of each shard, by id.
func (s *shards) marks(of func(*shard) mark) map[uint32]mark {
	marks := map[uint32]mark{}
	for _, one := range s.all() {
		marks[one.id] = of(one)
	}
	return marks
}
