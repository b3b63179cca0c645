package verify

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"
)

// shard is what the clients know about one shard: the order of its decisions, and when it did not answer.
type shard struct {
	id uint32

	memory time.Duration // how long ago the time in newestAt may lie

	mu     sync.Mutex
	newest mark            // of all answers
	recent []heard         // the answers that were newest within the memory, and the last one before; oldest first
	times  map[place]int64 // shard time of every entry named in an answer

	asked  time.Time       // when the first operation after the last answer began; zero if none has
	gaps   []time.Duration // the outages that are over
	healed time.Time       // when the faults were over; zero before
	back   time.Duration   // from healed to the first answer to an operation that began later; 0: none has come
	tell   func(Outage)    // called with mu held; may be nil
}

// heard is the arrival of an answer that was newer than all before.
type heard struct {
	when time.Time
	mark mark
}

// Outage is a time during which a shard did not answer any operation.
type Outage struct {
	Shard  uint32
	Began  time.Time
	Lasted time.Duration // at least 100 ms
}

// newestAt returns the newest mark of all answers that had arrived by a time, which must lie within the memory.
func (s *shard) newestAt(t time.Time) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	later := sort.Search(len(s.recent), func(i int) bool { return s.recent[i].when.After(t) })
	if later == 0 {
		return mark{}
	}
	return s.recent[later-1].mark
}

func (s *shard) newestMark() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// enter records the mark of an answer. since is the newest mark when its operation began. An answer that had arrived by
// then was committed, so any later decision follows it in the log and in time.
func (s *shard) enter(m, since mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since != (mark{}) && (!since.place.before(m.place) || m.at <= since.at) {
		return finding(disordered, "decided at %v (time %d), to an operation that began after an answer of "+
			"%v (time %d)", m.place, m.at, since.place, since.at)
	}
	if at, ok := s.times[m.place]; ok && at != m.at {
		return finding(disordered, "two answers of %v say it was at %d and at %d", m.place, at, m.at)
	}
	s.times[m.place] = m.at
	if s.newest.place.before(m.place) {
		s.newest = m
		s.keep(m)
	}
	return nil
}

// keep adds a mark to the recent ones, and drops those older than the memory.
func (s *shard) keep(m mark) {
	if s.memory == 0 {
		return
	}
	now := time.Now()
	s.recent = append(s.recent, heard{now, m})
	for len(s.recent) > 1 && now.Sub(s.recent[1].when) > s.memory {
		s.recent = s.recent[1:]
	}
}

// ordered checks that time went forward from entry to entry.
func (s *shard) ordered() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := slices.SortedFunc(maps.Keys(s.times), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.seq, b.seq))
	})
	for i := 1; i < len(places); i++ {
		if before, after := s.times[places[i-1]], s.times[places[i]]; after <= before {
			return finding(disordered, "shard time went from %d at %v to %d at %v",
				before, places[i-1], after, places[i])
		}
	}
	return nil
}

// blink is the shortest time without an answer that counts as an outage: shorter ones are pauses of this machine.
const blink = 100 * time.Millisecond

// ask records that an operation begins.
func (s *shard) ask(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() {
		s.asked = now
	}
}

// answered records that an operation that began at `began` was decided. The shard was away for as long as an operation
// waited and none was answered.
func (s *shard) answered(began, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() {
		if away := now.Sub(s.asked); away >= blink {
			s.gaps = append(s.gaps, away)
			if s.tell != nil {
				s.tell(Outage{s.id, s.asked, away})
			}
		}
	}
	s.asked = time.Time{}
	if !s.healed.IsZero() && s.back == 0 && began.After(s.healed) {
		s.back = now.Sub(s.healed)
	}
}

// heal records that the faults are over.
func (s *shard) heal(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healed = now
}

// away is the longest outage so far, including a current one.
func (s *shard) away(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := time.Duration(0)
	if !s.asked.IsZero() && now.Sub(s.asked) >= blink {
		worst = now.Sub(s.asked)
	}
	for _, gap := range s.gaps {
		worst = max(worst, gap)
	}
	return worst
}

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
