package decisions

import (
	"math/rand/v2"
	"sync"
	"time"
)

// denialsInFull is how many denials of one policy are logged in a second before they are sampled.
const denialsInFull = 1000

// sampler selects the decisions to log. It chooses at random, by kind and policy alone, so the sum of weights over any
// group of decisions (one key, one node, one minute) is right on average; that of denials below the bound is exact.
type sampler struct {
	every  uint64 // one allowed decision in this many; 0 for none
	random func() uint64
	now    func() time.Time

	mu      sync.Mutex                 // guards the fields below
	second  int64                      // that denials are of, in Unix seconds
	denials map[string]*denialSampling // by policy, in this second
}

// denialSampling is the sampling of one policy's denials: after each denialsInFull lines of a second ten times fewer.
// So a flood of a million denials a second makes some 4,000 lines.
type denialSampling struct {
	lines  int    // with the present weight
	weight uint64 // of the next line
}

func newSampler(every uint64) *sampler {
	return &sampler{every: every, random: rand.Uint64, now: time.Now, denials: make(map[string]*denialSampling)}
}

// weight returns the number of decisions that this one's line stands for, or 0 if it gets no line.
func (s *sampler) weight(kind Kind, policy string) uint64 {
	if kind == Allowed || kind == Settled {
		return s.chance(s.every)
	}
	second := s.now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	if second != s.second {
		s.second = second
		clear(s.denials)
	}
	of := s.denials[policy]
	if of == nil {
		of = &denialSampling{weight: 1}
		s.denials[policy] = of
	}
	drawn := s.chance(of.weight)
	if drawn == 0 {
		return 0
	}
	if of.lines++; of.lines == denialsInFull {
		of.lines, of.weight = 0, of.weight*10
	}
	return drawn
}

// chance returns n with a probability of 1/n, else 0. For 0 it returns 0.
func (s *sampler) chance(n uint64) uint64 {
	if n > 1 && s.random()%n != 0 {
		return 0
	}
	return n
}
